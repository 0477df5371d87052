"""The page's first screen in numbers: a row per model and condition."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from pipeline.axes.registry import SPLIT_TITLES
from pipeline.report.evaluations import rows_of
from pipeline.report.page.aggregates import W1, Aggregates
from pipeline.report.page.answers import COST_AXES
from pipeline.report.tables.retention import difference_from_base
from pipeline.report.tables.retention_lists import primary_counts
from pipeline.report.tables.table import DASH, MISSING


@dataclass(frozen=True)
class SummaryCell:
    """One cell of the first screen's table; ``title`` names its sample size and where it comes from."""

    text: str
    detail: str = ""
    title: str = ""


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
