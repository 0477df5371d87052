"""The page's first screen: is the model calibrated, and what did it cost? In words and numbers from the metrics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.config.params import CONDITIONS, METHODS
from pipeline.core.statistics.condition_tests import PAIRS
from pipeline.metrics.registry import SPLIT_TITLES, SPLITS
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.retention import GP_IRT, difference_from_base, paloma_measures
from pipeline.report.tables.retention_lists import VERDICTS, primary_counts, verdict_sentence
from pipeline.report.tables.table import DASH, MISSING
from pipeline.report.tables.transfer import SUPPORT_SIZE, TOTAL_VARIATION, UTILITY, utility_measure

W1 = "wasserstein_1_normalised"
ALL_ANSWERS = "pit_wasserstein_1_all_answers"
COST_AXES = ("retention", "paloma")
"""Axes whose tests against base say what was lost."""


@dataclass(frozen=True)
class Answer:
    """A question, its short answer, and the sentences behind it."""

    question: str
    short: str
    sentences: Sequence[str]


@dataclass(frozen=True)
class SummaryCell:
    """One cell of the first screen's table; ``title`` names its sample size and where it comes from."""

    text: str
    detail: str = ""
    title: str = ""


class Aggregates:
    """The aggregate rows of the metrics table by axis, split, metric, model and condition."""

    def __init__(self, metrics: pd.DataFrame, models: Mapping[str, str]):
        """Keep the rows over all families of the given models.

        Args:
            metrics: The tidy metrics table.
            models: Model name -> display name.
        """
        rows = rows_of(metrics, family="").itertuples()
        self.models = models
        self._rows = {(row.axis, row.split, row.metric, row.model, row.condition): row for row in rows}

    def get(self, axis: str, split: str, metric: str, model: str, condition: str):
        """The row, or None where it does not exist."""
        return self._rows.get((axis, split, metric, model, condition))

    def defined(self, axis: str, split: str, metric: str, condition: str) -> list:
        """The rows of a condition with a finite value, in the order of the models."""
        rows = (self.get(axis, split, metric, model, condition) for model in self.models)
        return [row for row in rows if row is not None and math.isfinite(row.value)]

    def sizes(self, axis: str, metric: str) -> list[int]:
        """Sample sizes of a metric in the parts of an axis (tasks, slices), all parts together left out."""
        return [int(row.n) for key, row in self._rows.items() if (key[0], key[2]) == (axis, metric) and key[1] != "all"]


def reaches_floor(row) -> bool:
    """Whether the 95% interval reaches what a perfect sampler scores with as many answers."""
    return row.ci_low <= row.floor


def closeness(row, base) -> str:
    """ "closer", "farther" or "cannot tell": whether two W1 intervals are apart, and on which side.

    Intervals that overlap can still differ in a paired test, so "cannot tell" is of the intervals alone.
    """
    if row.ci_high < base.ci_low:
        return "closer"
    return "farther" if row.ci_low > base.ci_high else "cannot tell"


def calibration_answer(rows: Aggregates, comparisons: pd.DataFrame | None = None) -> Answer:
    """Is the model calibrated?

    Args:
        rows: Aggregate rows.
        comparisons: Paired tests between conditions, columns metric, condition, against and verdict.
    """
    question = "Are the models calibrated?" if len(rows.models) > 1 else "Is the model calibrated?"
    sentences, reached, moved = [], [], []
    for split, name in SPLIT_TITLES.items():
        base = {row.model: row for row in rows.defined("structured", split, W1, "base")}
        parts = []
        for condition in CONDITIONS:
            members = rows.defined("structured", split, W1, condition)
            if not members:
                continue
            parts.append(_distance(condition, members, len(rows.models)))
            if condition in METHODS:
                reached += [reaches_floor(row) for row in members]
                moved += [closeness(row, base[row.model]) for row in members if row.model in base]
        if parts:
            sentences.append(f"On {name}, normalised W1 is {'; '.join(parts)}.")
    if not sentences:
        return Answer(question, "Not known: no structured evaluation has been run.", [])
    sentences += _comparison_sentences(comparisons)
    rates = _medians(rows, "structured", "ood", "valid_rate", ".1%")
    if rates:
        sentences.append(f"Valid answers on held-out families: {rates}. W1 leaves the others out.")
    scores = _medians(rows, "structured", "ood", ALL_ANSWERS, ".3f")
    if scores:
        sentences.append(f"With those counted, as 1 each, W1 on the probability scale is {scores}.")
    return Answer(question, _calibration_word(reached, moved), sentences)


def _comparison_sentences(comparisons: pd.DataFrame | None) -> list[str]:
    """What the paired tests of W1 say of base, soft and hard, counted over models and splits."""
    if comparisons is None:
        return []
    parts = []
    for own, other in (pair for pair in PAIRS if set(pair) <= set(CONDITIONS)):
        chosen = rows_of(comparisons, metric=W1, condition=own, against=other)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in chosen["verdict"].value_counts().items())
        if counts:
            parts.append(f"{own} against {other} {counts}")
    return [f"Paired tests of W1 on the same prompts, one per model and split: {'; '.join(parts)}."] if parts else []


def _calibration_word(reached: Sequence[bool], moved: Sequence[str]) -> str:
    if not reached:
        return "No fine-tuned model has been evaluated yet."
    if all(reached):
        return "As far as so many answers can tell, yes: fine-tuned, it cannot be told from a perfect sampler."
    word = "In part" if any(reached) else "No"
    if moved and all(way == "closer" for way in moved):
        return f"{word}, but closer after fine-tuning: every interval lies below that of base."
    if "closer" in moved:
        return f"{word}; closer after fine-tuning in {moved.count('closer')} of {len(moved)} comparisons with base."
    return f"{word}, and its intervals do not show that fine-tuning brings it closer."


def _distance(condition: str, members: Sequence, models: int) -> str:
    """A condition's W1 with what it is in units of the perfect sampler's."""
    if models == 1:
        row = members[0]
        interval = f"{row.value:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        if not math.isfinite(row.floor):
            return f"{condition} {interval}"
        return f"{condition} {interval}, {row.value / row.floor:.1f} times a perfect sampler's {row.floor:.3f}"
    values = pd.Series([row.value for row in members])
    ratios = pd.Series([row.value / row.floor for row in members])
    count = sum(reaches_floor(row) for row in members)
    return (
        f"{condition} {values.median():.3f} (median of {len(members)} models, {values.min():.3f} to "
        f"{values.max():.3f}), {ratios.median():.1f} times a perfect sampler's, which {count} of them reach"
    )


def _medians(rows: Aggregates, axis: str, split: str, metric: str, form: str) -> str:
    """Median over the models by condition in the given format, as "base 1, soft 2"; empty without any."""
    found = {name: rows.defined(axis, split, metric, name) for name in CONDITIONS}
    medians = {name: pd.Series([row.value for row in members]).median() for name, members in found.items() if members}
    return ", ".join(f"{name} {value:{form}}" for name, value in medians.items())


def cost_answer(rows: Aggregates, tests: Mapping[str, pd.DataFrame], bits_per_byte: str) -> Answer:
    """What did it cost? From tests against base, and from the rate at which questions can be parsed.

    Args:
        rows: Aggregate rows.
        tests: Axis -> tests against base, columns condition, split, metric and verdict.
        bits_per_byte: The metric's name (with or without BOS).
    """
    sentences = []
    for axis, metric, form, sentence in (
        ("retention", "gp_irt", ".3f", "Accuracy on TinyBenchmarks (gp-IRT) is {}."),
        ("paloma", bits_per_byte, ".3f", "Held-out text costs {} bits per byte."),
        ("mcq", "mcq_parse_rate", ".0%", "Of the questions written on request, {} can be parsed."),
    ):
        (split,) = SPLITS[axis]
        listed = _medians(rows, axis, split, metric, form)
        if listed:
            measured = {"retention": "accuracy", "paloma": bits_per_byte}.get(axis, "")
            verdicts = verdict_sentence(axis, tests[axis], rows.sizes(axis, measured)) if axis in tests else ""
            sentences.append(f"{sentence.format(listed)} {verdicts}".strip())
    return Answer("What did it cost?", _cost_word(rows, tests), sentences)


def _cost_word(rows: Aggregates, tests: Mapping[str, pd.DataFrame]) -> str:
    """From the primary questions: all tasks together, and all slices."""
    totals = dict.fromkeys(VERDICTS, 0)
    for axis in COST_AXES:
        for method in METHODS if axis in tests else ():
            for verdict, count in primary_counts(tests[axis], method).items():
                totals[verdict] += count
    parsed_by_base = {row.model: row for row in rows.defined("mcq", "mcq", "mcq_parse_rate", "base")}
    fallen = any(
        row.model in parsed_by_base and row.ci_high < parsed_by_base[row.model].ci_low
        for method in METHODS
        for row in rows.defined("mcq", "mcq", "mcq_parse_rate", method)
    )
    if not sum(totals.values()) and not parsed_by_base:
        return "Not known: no retention evaluation has been run."
    if totals["lost"] or fallen:
        parts = []
        if totals["lost"]:
            unsure = f" ({totals['cannot tell']} cannot tell)" if totals["cannot tell"] else ""
            parts.append(f"{totals['lost']} of {sum(totals.values())} tests show a loss{unsure}")
        if fallen:
            parts.append("written questions lose their form")
        return f"Some of what base could do: {' and '.join(parts)}."
    if totals["cannot tell"]:
        return "No loss is shown, but the tests cannot rule one out."
    return "Nothing that the tests can see."


def headline(metrics: pd.DataFrame, tests: Mapping[str, pd.DataFrame] | None = None) -> str:
    """One sentence per axis (structured: per split): the median over models by condition.

    An axis is left out where base is undefined or was not run.

    Args:
        metrics: The tidy metrics table.
        tests: Axis -> tests against base, columns condition and verdict; their verdicts are counted.
    """
    rows = Aggregates(metrics, dict.fromkeys(metrics["model"]))
    utility, bits_per_byte = utility_measure(metrics, "all"), paloma_measures(metrics)[1]
    stand_in = " by a stand-in evaluator, not the benchmark's" if utility.metric == UTILITY[True] else ""
    sentences = []
    for split, name in SPLIT_TITLES.items():
        found = rows_of(metrics, axis="structured", split=split, family="", metric=W1)
        floor = found.loc[found["condition"].isin(CONDITIONS), "floor"].median()
        if rows.defined("structured", split, W1, "base"):
            medians = _medians(rows, "structured", split, W1, ".3f")
            sentences.append(f"On {name}, normalised W1 is {medians}; a perfect sampler scores {floor:.3f}.")
    for measure, sentence in (
        (SUPPORT_SIZE, "For an open-ended random answer, 90% of the first token's probability is on {} tokens."),
        (TOTAL_VARIATION, "The correct option's position in multiple-choice questions is off uniform by a TV of {}."),
        (utility, f"NoveltyBench utility{stand_in} is {{}}."),
        (GP_IRT, "Accuracy on TinyBenchmarks, as gp-IRT estimates it, is {}."),
        (bits_per_byte, "Held-out text costs {} bits per byte."),
    ):
        names = (measure.axis, measure.split, measure.metric)
        if rows.defined(*names, "base"):
            sentences.append(sentence.format(_medians(rows, *names, f".{measure.decimals}f")))
        if tests and measure in (GP_IRT, bits_per_byte):
            sentences.append(verdict_sentence(measure.axis, tests[measure.axis]))
    return " ".join(filter(None, sentences)) or "No evaluation has been run yet."


SUMMARY_TITLES = (
    "W1, held-out families",
    "× perfect sampler",
    "W1, unseen parameters",
    "× perfect sampler",
    "Valid answers",
    "gp-IRT",
    "− base",
    "Bits per byte",
    "− base",
    "Questions parsed",
    "Verdicts against base",
)
"""Titles of the columns of ``summary_rows``."""


def summary_rows(
    rows: Aggregates, tests: Mapping[str, pd.DataFrame], bits_per_byte: str
) -> list[tuple[str, str, list[SummaryCell]]]:
    """(display name, condition, cells in the order of SUMMARY_TITLES) for each model under base, soft and hard."""
    table = []
    for model, name in rows.models.items():
        for condition in CONDITIONS:
            cells = []
            for split in SPLIT_TITLES:
                row = rows.get("structured", split, W1, model, condition)
                cells += [_cell(row, 3), _ratio(row)]
            cells.append(_cell(rows.get("structured", "ood", "valid_rate", model, condition), 1, percent=True))
            for axis, metric in (("retention", "gp_irt"), ("paloma", bits_per_byte)):
                cells.append(_cell(rows.get(axis, "all", metric, model, condition), 3))
                difference = rows.get(axis, "all", difference_from_base(metric), model, condition)
                cells.append(SummaryCell("") if condition == "base" else _cell(difference, 3, signed=True))
            cells.append(_cell(rows.get("mcq", "mcq", "mcq_parse_rate", model, condition), 1, percent=True))
            cells.append(SummaryCell("" if condition == "base" else _verdicts(tests, model, condition)))
            table.append((name, condition, cells))
    return table


def _cell(row, decimals: int, *, percent: bool = False, signed: bool = False) -> SummaryCell:
    if row is None:
        return SummaryCell(MISSING)
    title = f"n = {row.n:,}; {row.provenance}"
    if not math.isfinite(row.value):
        return SummaryCell(DASH, f"{row.undefined} undefined", title)
    form = f"{'+' if signed else ''}.{decimals}{'%' if percent else 'f'}"
    interval = f"[{row.ci_low:{form}}, {row.ci_high:{form}}]" if math.isfinite(row.ci_low) else ""
    return SummaryCell(f"{row.value:{form}}", interval, title)


def _ratio(row) -> SummaryCell:
    if row is None:
        return SummaryCell(MISSING)
    ratio = row.value / row.floor
    if not math.isfinite(ratio):
        return SummaryCell(DASH)
    return SummaryCell(f"{ratio:.1f}", f"of {row.floor:.3f}", f"a perfect sampler at n = {row.n:,}")


def _verdicts(tests: Mapping[str, pd.DataFrame], model: str, condition: str) -> str:
    """The verdicts on the primary questions, as "tasks kept, text lost"."""
    parts = []
    for axis, name in zip(COST_AXES, ("tasks", "text"), strict=True):
        counts = primary_counts(rows_of(tests[axis], model=model), condition) if axis in tests else {}
        parts += [f"{name} {verdict}" for verdict, count in counts.items() if count]
    return ", ".join(parts) or MISSING
