"""Tables of measures by model and condition: what a table holds, before any text is made of it."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from pipeline.axes.registry import METRICS, SPLITS
from pipeline.report.evaluations import EvaluationKey, rows_of

MISSING, FAILED = "not run", "failed"
DASH = "—"
Field = Literal["value", "n", "floor", "ratio"]
"""What of a metric's row is shown: its value with the interval, its sample size, what a perfect sampler scores, or the
value over that (with the perfect sampler's score in brackets)."""


@dataclass(frozen=True)
class Measure:
    """A metric as a group of columns, one per condition (or as one column, where conditions are rows).

    Attributes:
        lower_is_better: Which value is set in bold; None where none is better.
        attempts: Metric whose n counts the attempts of which an undefined value says that none
            succeeded ("none of n parsed"); empty where an undefined value counts families or prompts.
        undefined: What ``undefined`` counts.
    """

    metric: str
    title: str
    decimals: int
    lower_is_better: bool | None
    axis: str = "structured"
    split: str = ""
    field: Field = "value"
    attempts: str = ""
    undefined: str = "families"


def measure_of(
    name: str,
    split: str = "",
    *,
    axis: str = "",
    title: str = "",
    decimals: int | None = None,
    field: Field = "value",
    bold: bool = True,
) -> Measure:
    """A registered metric as columns of a table; axis, title, decimals and an only split are by default its own."""
    metric = METRICS[name]
    splits = SPLITS[axis or metric.axis]
    return Measure(
        name,
        title or metric.column_title,
        metric.decimals if decimals is None else decimals,
        metric.direction == "lower" if bold and metric.direction != "neither" else None,
        axis or metric.axis,
        split or (splits[0] if len(splits) == 1 else ""),
        field,
        metric.attempts,
        metric.undefined,
    )


@dataclass(frozen=True)
class Cell:
    """One row of the metrics table, NaN where it has no number; ``remark`` says why the value is undefined."""

    value: float
    n: int
    ci_low: float
    ci_high: float
    floor: float
    undefined: int
    provenance: str
    remark: str = ""

    @property
    def ratio(self) -> float:
        """Value over what a perfect sampler scores; NaN where there is no such score or it is 0."""
        return self.value / self.floor if math.isfinite(self.floor) and self.floor > 0 else math.nan


CellKey = tuple[str, str, str, str]
"""Axis, split, metric and condition."""
Verdicts = Mapping[tuple[str, str, str], Mapping[tuple[str, str, str], str]]
"""Of paired tests: axis, split and metric -> model, condition and what it was tested against -> verdict."""
MOST_COLUMNS = 12
"""Of a table with a column for each measure and condition; a page holds no more with their intervals."""
BOLD_BY_TESTS = (
    " Where conditions were tested against each other, bold stands only where the best is shown to be better than "
    "every other."
)


@dataclass(frozen=True)
class Table:
    """A table with one row per model, or one per model and condition.

    Attributes:
        name: File name without suffix.
        models: Model name -> display name, in row order.
        conditions: Column order within each measure (or row order within each model).
        cells: ``cells[model][axis, split, metric, condition]``, None where that evaluation does not exist.
        row_title: What the rows are; where they are not models but means over them ("Task"), ``models`` holds the
            rows' names, and no evaluation counts as missing.
        verdicts: What paired tests say of the conditions, for ``best``.
        row_texts: A text in a last column by model and condition, where conditions are rows.
        failed: Evaluations that do not exist because the model could not be run.
    """

    name: str
    caption: str
    models: Mapping[str, str]
    conditions: Sequence[str]
    measures: Sequence[Measure]
    cells: Mapping[str, Mapping[CellKey, Cell | None]]
    note: str = ""
    conditions_are_rows: bool = False
    row_title: str = "Model"
    verdicts: Verdicts = field(default_factory=dict)
    row_texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    row_texts_title: str = ""
    failed: Collection[EvaluationKey] = ()

    def cell(self, model: str, measure: Measure, condition: str) -> Cell | None:
        """The cell of a measure under a condition."""
        return self.cells[model][measure.axis, measure.split, measure.metric, condition]

    def column(self, measure: Measure, condition: str) -> list[Cell]:
        """The cells of all models that exist, in row order."""
        cells = (self.cell(model, measure, condition) for model in self.models)
        return [cell for cell in cells if cell is not None]

    def existing_cells(self, measure: Measure) -> list[Cell]:
        """The cells of a measure that exist, of all models and conditions."""
        return [cell for condition in self.conditions for cell in self.column(measure, condition)]

    def lines(self) -> Iterator[tuple[list[str], list[tuple[str, Measure, str]]]]:
        """Row labels and the (model, measure, condition) of each cell, by row."""
        for model, display_name in self.models.items():
            if self.conditions_are_rows:
                for condition in self.conditions:
                    yield [display_name, condition], [(model, measure, condition) for measure in self.measures]
            else:
                yield [display_name], [(model, m, condition) for m in self.measures for condition in self.conditions]

    @property
    def last_titles(self) -> list[str]:
        """Title of the column of ``row_texts``, if there is one."""
        return [self.row_texts_title] if self.row_texts else []

    def last_texts(self, model: str, condition: str) -> list[str]:
        """The text in that column."""
        return [self.row_texts[model, condition]] if self.row_texts else []

    @property
    def absent(self) -> set[EvaluationKey]:
        """The evaluations that the table lacks."""
        if self.row_title != "Model":
            return set()
        return {
            EvaluationKey(measure.axis, model, condition)
            for model in self.models
            for measure in self.measures
            for condition in self.conditions
            if self.cell(model, measure, condition) is None
        }

    @property
    def missing(self) -> list[str]:
        """The same as "model condition", with the axes behind it if the table has several."""
        axes = {measure.axis for measure in self.measures}
        if len(axes) == 1:
            return sorted({f"{key.model} {key.condition}" for key in self.absent})
        return missing_evaluations(self.absent)

    @property
    def is_empty(self) -> bool:
        """Whether no cell exists."""
        return all(cell is None for row in self.cells.values() for cell in row.values())

    def best(self, model: str, measure: Measure) -> float:
        """The best finite value; NaN where none is, or where tests do not show that it is better than all others."""
        cells = {condition: self.cell(model, measure, condition) for condition in self.conditions}
        finite = {c: cell.value for c, cell in cells.items() if cell is not None and math.isfinite(cell.value)}
        if not finite or measure.lower_is_better is None or measure.field != "value":
            return math.nan
        best = (min if measure.lower_is_better else max)(finite, key=finite.__getitem__)
        tests = self.verdicts.get((measure.axis, measure.split, measure.metric))
        for other in finite.keys() - {best} if tests is not None else ():
            if tests.get((model, best, other)) != "better" and tests.get((model, other, best)) != "worse":
                return math.nan
        return finite[best]


@dataclass(frozen=True)
class ListTable:
    """A table of texts with one row per record; the first ``labels`` columns name it.

    ``frame`` has the records in full precision, for CSV.
    """

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int
    frame: pd.DataFrame
    note: str = ""

    @property
    def absent(self) -> set[EvaluationKey]:
        """Nothing: a list has the records that exist."""
        return set()


def missing_evaluations(absent: Iterable[EvaluationKey]) -> list[str]:
    """Evaluations as "model condition (axis, axis)", sorted."""
    axes: dict[str, list[str]] = {}
    for key in sorted(absent):
        axes.setdefault(f"{key.model} {key.condition}", []).append(key.axis)
    return [f"{name} ({', '.join(members)})" for name, members in sorted(axes.items())]


def build_table(
    name: str,
    caption: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    measures: Sequence[Measure],
    conditions: Sequence[str],
    *,
    conditions_are_rows: bool = False,
) -> Table:
    """Select the aggregate rows of the measures; conditions are rows in any table of more than MOST_COLUMNS."""
    wanted = {name for measure in measures for name in (measure.metric, measure.attempts)}
    chosen = metrics[(metrics["family"] == "") & metrics["metric"].isin(wanted)]
    rows = {(row.axis, row.split, row.metric, row.model, row.condition): row for row in chosen.itertuples()}
    cells: dict[str, dict[CellKey, Cell | None]] = {model: {} for model in models}
    for model in models:
        for measure in measures:
            for condition in conditions:
                row = rows.get((measure.axis, measure.split, measure.metric, model, condition))
                tried = rows.get((measure.axis, measure.split, measure.attempts, model, condition))
                key = (measure.axis, measure.split, measure.metric, condition)
                cells[model][key] = None if row is None else _cell(row, measure, tried)
    wide = len(conditions) * len(measures) > MOST_COLUMNS
    return Table(name, caption, models, conditions, measures, cells, conditions_are_rows=conditions_are_rows or wide)


def _cell(row, measure: Measure, tried) -> Cell:
    value, undefined, remark = float(row.value), int(row.undefined), ""
    if not math.isfinite(value):
        remark = f"none of {int(tried.n)} parsed" if tried is not None else f"{undefined} {measure.undefined} undefined"
    numbers = (float(number) for number in (row.ci_low, row.ci_high, row.floor))
    return Cell(value, int(row.n), *numbers, undefined, row.provenance, remark)


def with_note(table: Table, note: str) -> Table:
    """The table with a note, which also names the evaluations that are missing."""
    missing = f" Not run: {', '.join(table.missing)}." if table.missing else ""
    return dataclasses.replace(table, note=note + missing)


def with_failures(table: Table, failed: Mapping[EvaluationKey, str]) -> Table:
    """The table with a note on those of its cells that are empty because the model could not be run."""
    own = table.absent & failed.keys()
    named = "".join(f" Failed: {key.model} {key.condition} ({failed[key]})." for key in sorted(own))
    return dataclasses.replace(table, failed=own, note=table.note + named)


def verdicts_of(tests: Iterable[pd.DataFrame]) -> Verdicts:
    """The verdicts of tables of tests, columns axis, split, metric, model, condition, against and verdict."""
    found: dict[tuple[str, str, str], dict[tuple[str, str, str], str]] = {}
    for row in (row for table in tests for row in table.itertuples()):
        found.setdefault((row.axis, row.split, row.metric), {})[row.model, row.condition, row.against] = row.verdict
    return found


def bold_by_tests(table: Table, verdicts: Verdicts) -> Table:
    """The table with bold only where tests allow it, and a note that says so if any of its measures was tested."""
    measures = {(m.axis, m.split, m.metric) for m in table.measures if m.lower_is_better is not None}
    if table.row_title != "Model" or not measures & set(verdicts):
        return table
    return dataclasses.replace(table, verdicts=verdicts, note=table.note + BOLD_BY_TESTS)


def existing_measures(metrics: pd.DataFrame, measures: Sequence[Measure]) -> list[Measure]:
    """The measures of which at least one aggregate row exists."""
    rows = metrics.loc[metrics["family"] == "", ["axis", "split", "metric"]].drop_duplicates()
    found = set(rows.itertuples(index=False, name=None))
    return [measure for measure in measures if (measure.axis, measure.split, measure.metric) in found]


def detailed_table(
    name: str,
    caption: str,
    note: str,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    measures: Sequence[Measure],
    conditions: Sequence[str],
) -> Table | None:
    """A row per model and condition, a column per measure of one axis, where any exists; None if nothing does."""
    measures = existing_measures(metrics, measures)
    conditions = tuple(c for c in conditions if existing_measures(metrics[metrics["condition"] == c], measures))
    if not measures or not conditions:
        return None
    evaluated = set(rows_of(metrics, axis=measures[0].axis)["model"])
    present = {model: display_name for model, display_name in models.items() if model in evaluated}
    table = build_table(name, caption, metrics, present, measures, conditions, conditions_are_rows=True)
    return with_note(table, note)


def number_range(values: Sequence[float], decimals: int) -> str:
    """The smallest and largest of the finite values as "a to b", as "a" if they agree, "no" if there are none."""
    finite = sorted(value for value in values if math.isfinite(value))
    if not finite:
        return "no"
    low, high = f"{finite[0]:.{decimals}f}", f"{finite[-1]:.{decimals}f}"
    return low if low == high else f"{low} to {high}"


def number_text(value: float, decimals: int = 4, sign: str = "") -> str:
    """A number, with its sign where ``sign`` is "+"; a dash where it is undefined."""
    return f"{value:{sign}.{decimals}f}" if math.isfinite(value) else DASH


def signed_text(value: float, decimals: int = 4) -> str:
    """A difference with its sign; a dash where it is undefined."""
    return number_text(value, decimals, "+")


def interval_text(low: float, high: float, decimals: int = 4, sign: str = "+") -> str:
    """An interval in brackets, with signs unless ``sign`` is empty; a dash where it is undefined."""
    if not math.isfinite(low) or not math.isfinite(high):
        return DASH
    return f"[{low:{sign}.{decimals}f}, {high:{sign}.{decimals}f}]"


def probability_text(value: float) -> str:
    """A p-value; a dash where it is undefined."""
    return "<0.001" if value < 0.001 else number_text(value, 3)
