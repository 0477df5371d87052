"""The page's first screen in numbers: all axes in sentences, and a row per model and condition."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.metrics.registry import SPLIT_TITLES
from pipeline.report.evaluations import rows_of
from pipeline.report.page.answers import COST_AXES, W1, Aggregates, medians_by_condition
from pipeline.report.tables.retention import GP_IRT, difference_from_base, paloma_measures
from pipeline.report.tables.retention_lists import primary_counts, verdict_sentence
from pipeline.report.tables.table import DASH, MISSING
from pipeline.report.tables.transfer import SUPPORT_SIZE, TOTAL_VARIATION, UTILITY, utility_measure


@dataclass(frozen=True)
class SummaryCell:
    """One cell of the first screen's table; ``title`` names its sample size and where it comes from."""

    text: str
    detail: str = ""
    title: str = ""


def headline(metrics: pd.DataFrame, conditions: Sequence[str], tests: Mapping[str, pd.DataFrame] | None = None) -> str:
    """One sentence per axis (structured: per split): the median over models by condition.

    An axis is left out where base is undefined or was not run.

    Args:
        metrics: The tidy metrics table.
        conditions: Base and the methods, in order.
        tests: Axis -> tests against base, columns condition and verdict; their verdicts are counted.
    """
    rows = Aggregates(metrics, dict.fromkeys(metrics["model"]), conditions)
    utility, bits_per_byte = utility_measure(metrics, "all"), paloma_measures(metrics)[1]
    stand_in = " by a stand-in evaluator, not the benchmark's" if utility.metric == UTILITY[True] else ""
    sentences = []
    for split, name in SPLIT_TITLES.items():
        found = rows_of(metrics, axis="structured", split=split, family="", metric=W1)
        floor = found.loc[found["condition"].isin(conditions), "floor"].median()
        if rows.defined("structured", split, W1, "base"):
            medians = medians_by_condition(rows, "structured", split, W1, ".3f")
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
            sentences.append(sentence.format(medians_by_condition(rows, *names, f".{measure.decimals}f")))
        if tests and measure in (GP_IRT, bits_per_byte):
            sentences.append(verdict_sentence(measure.axis, tests[measure.axis], rows.methods))
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
    """(display name, condition, cells in the order of SUMMARY_TITLES) for each model under base and each method."""
    table = []
    for model, name in rows.models.items():
        for condition in rows.conditions:
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
