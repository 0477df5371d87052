"""Tables: what one shows as a specification over the metrics, and the cells that are made of it."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES, SPLITS
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import BASE
from pipeline.report.evaluations import METRIC_COLUMNS, EvaluationKey, ReportContext

MISSING, FAILED = "not run", "failed"
DASH = "—"
RATIO_TITLE = "× perfect"
FIELD_TITLES = {"n": "n", "floor": "Perfect sampler", "ratio": RATIO_TITLE, "change": "Change"}
INTERVALS, CHANGE = "Brackets: 95% intervals.", " Change: the condition less base, paired."
ADDRESS = ("axis", "split", "metric", "model", "condition")
Cells = Mapping[str, Any]  # rows of metrics.csv by metric


class Cell(NamedTuple):
    """What a cell shows: a text, its interval or a remark in smaller print, and where it is from."""

    text: str
    detail: str = ""
    tooltip: str = ""


@dataclass(frozen=True)
class Table:
    """A table of texts; its first ``labels`` columns name a row, and ``frame`` has its numbers in full precision."""

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    labels: int
    frame: pd.DataFrame
    note: str = ""

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows with every text as a cell."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Column:
    """A metric in a table. Without a title, split or axis it has the metric's own, or the row's split."""

    metric: str  # "{row}" stands for the key of the row
    field: Literal["value", "n", "floor", "ratio", "change"] = "value"
    """"ratio" is the value over a perfect sampler's, "change" the paired one from base."""
    title: str = ""
    split: str = ""
    axis: str = ""

    def address(self, row: str, split: str) -> tuple[str, str, str]:
        """Axis, split and metric in a row of a key and of a split, either of which may be empty."""
        metric = self.metric.format(row=row)
        axis = self.axis or METRICS[metric].axis
        return axis, self.split or split or (SPLITS[axis][0] if len(SPLITS[axis]) == 1 else "all"), metric


@dataclass(frozen=True)
class TableSpec:
    """What a table shows: a row for each model and condition, or several; a column is left out where nothing has it."""

    name: str
    caption: str
    columns: Sequence[Column]
    note: str = ""
    rows_title: str = ""  # what the rows of a model and condition are; empty for one row each
    rows: Mapping[str, str] = field(default_factory=dict)
    """Title of each such row by key; empty for the splits that there are, "all" first."""
    verdict: tuple[str, Callable[[Cells, str], str]] | None = None
    """Title and text of a last column, from the rows of metrics.csv behind a row, and its condition."""


def make_table(
    spec: TableSpec,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    conditions: Sequence[str],
    failed: Collection[EvaluationKey] = (),
) -> Table | None:
    """The table of the models that have any of its metrics; None without one. Methods have rows in any case."""
    wanted = {column.metric.format(row=key) for column in spec.columns for key in spec.rows or ("",)}
    chosen = metrics[(metrics["family"] == "") & metrics["metric"].isin(wanted) & metrics["model"].isin(models)]
    found = {(r.axis, r.split, r.metric, r.model, r.condition): r for r in chosen.itertuples(index=False)}
    splits = sorted(chosen["split"].unique(), key=lambda split: split != "all")
    keys = [(key, "", title) for key, title in spec.rows.items()] or [("", "", "")]
    if spec.rows_title and not spec.rows:
        keys = [("", split, SHORT_SPLIT_TITLES.get(split, split)) for split in splits]
    addresses = {key[:3] for key in found}
    columns = [column for column in spec.columns if any(column.address(*key[:2]) in addresses for key in keys)]
    if not columns:
        return None
    evaluated = set(metrics[["axis", "model", "condition"]].itertuples(index=False, name=None))
    with_base = {axis for axis, _, condition in evaluated if condition == BASE}
    used = {column.address(*key[:2])[0] for column in columns for key in keys}
    of_table = {(model, condition) for axis, model, condition in evaluated if axis in used}
    rows, records = [], {}
    for model in (model for model in models if any(model == other for other, _ in of_table)):
        for condition in conditions:
            if condition in (BASE, *BASELINES) and not any(condition == other for _, other in of_table):
                continue
            for key, split, title in keys:
                cells, behind = [], {}
                for column in columns:
                    address = (*column.address(key, split), model, condition)
                    row, evaluation = found.get(address), EvaluationKey(address[0], model, condition)
                    if row is not None:
                        cells.append(metric_cell(row, column.field))
                        behind[row.metric] = row
                        status = "ok" if math.isfinite(row.value) else "undefined"
                        records[address] = row._asdict() | {"status": status}
                    elif evaluation in evaluated or (condition == BASE and evaluation.axis not in with_base):
                        # The evaluation has no such number; of what is a difference from base, base has none.
                        cells.append(Cell(DASH))
                    else:
                        cells.append(Cell(FAILED if evaluation in failed else MISSING))
                        records[address] = dict(zip(ADDRESS, address, strict=True)) | {"status": cells[-1].text}
                labels = [models[model], condition, *([title] if spec.rows_title else [])]
                rows.append([*labels, *cells, *([spec.verdict[1](behind, condition)] if spec.verdict else [])])
    first = next(iter(spec.rows), "")
    titles = [
        column.title or FIELD_TITLES.get(column.field) or METRICS[column.metric.format(row=first)].column_title
        for column in columns
    ]
    labels = ["Model", "Condition", *([spec.rows_title] if spec.rows_title else [])]
    header = [*labels, *titles, *([spec.verdict[0]] if spec.verdict else [])]
    frame = pd.DataFrame(list(records.values())).reindex(columns=[*METRIC_COLUMNS, "status"])
    change = CHANGE if any(column.field == "change" for column in columns) else ""
    return Table(spec.name, spec.caption, header, rows, len(labels), frame, f"{spec.note} {INTERVALS}{change}".strip())


def specified(spec: TableSpec, context: ReportContext, conditions: Sequence[str] = ()) -> Table | None:
    """The table of a specification, of all conditions or the given ones."""
    conditions = conditions or (*context.conditions, *BASELINES)
    return make_table(spec, context.metrics, context.names, conditions, context.evaluations.failed)


def metric_cell(row: Any, column: str = "value") -> Cell:
    """A field of a row of the metrics as a cell."""
    decimals, floor = METRICS[row.metric].decimals, number_text(row.floor)
    tooltip = f"n = {row.n}; perfect sampler {floor}; {row.provenance}"
    if column == "n":
        return Cell(f"{row.n:,}", "", tooltip)
    if column == "floor":
        return Cell(number_text(row.floor, decimals), "", tooltip)
    if column == "change":
        text = number_text(row.change, decimals, "+")
        return Cell(text, "" if text == DASH else interval_text(row.change_low, row.change_high, decimals), tooltip)
    if not math.isfinite(row.value):
        undefined = f"{row.undefined} {METRICS[row.metric].undefined} undefined"
        return Cell(DASH, f"({row.note if isinstance(row.note, str) and row.note else undefined})", tooltip)
    if column == "ratio":
        known = math.isfinite(row.floor) and row.floor > 0
        return Cell(*((f"{row.value / row.floor:.1f}", f"({row.floor:.3g})") if known else (DASH, "")), tooltip)
    interval = interval_text(row.ci_low, row.ci_high, decimals, "") if math.isfinite(row.ci_low) else ""
    return Cell(number_text(row.value, decimals), interval, tooltip)


def records_table(
    name: str, caption: str, records: pd.DataFrame, columns: Mapping[str, Callable[[Any], str]], labels: int, note: str
) -> Table | None:
    """A row for each record, with texts by title; None without any record."""
    if records.empty:
        return None
    rows = [[text(row) for text in columns.values()] for row in records.itertuples()]
    return Table(name, caption, list(columns), rows, labels, records, note)


def number_text(value: float, decimals: int = 4, sign: str = "") -> str:
    """A number, with its sign where ``sign`` is "+"; a dash where it is undefined."""
    return f"{value:{sign}.{decimals}f}" if math.isfinite(value) else DASH


def interval_text(low: float, high: float, decimals: int = 4, sign: str = "+") -> str:
    """An interval in brackets, with signs unless ``sign`` is empty; a dash where it is undefined."""
    if not math.isfinite(low) or not math.isfinite(high):
        return DASH
    return f"[{low:{sign}.{decimals}f}, {high:{sign}.{decimals}f}]"


def probability_text(value: float) -> str:
    """A p-value; a dash where it is undefined."""
    return "<0.001" if value < 0.001 else number_text(value, 3)
