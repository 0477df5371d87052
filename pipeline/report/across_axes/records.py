"""Tables with one row per record, and what tables of tests share."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.core.statistics.condition_tests import adjusted_by_question, comparison_verdict
from pipeline.report.tables.table import ListTable, interval_text, probability_text, signed_text

Columns = Mapping[str, Callable[[Any], str]]
"""By title, the text of a record, which is a named tuple of a frame's row."""


def records_table(
    name: str, caption: str, records: pd.DataFrame, columns: Columns, labels: int, note: str
) -> ListTable | None:
    """A list with a row per record, the first ``labels`` columns naming it; None without any record."""
    if records.empty:
        return None
    rows = [[text(row) for text in columns.values()] for row in records.itertuples()]
    return ListTable(name, caption, list(columns), rows, labels, records, note)


def with_verdicts(tests: pd.DataFrame, significance: float) -> pd.DataFrame:
    """Tests with p adjusted over the splits of a question (Holm), and verdicts at a level.

    Columns axis, split, metric, condition, against, ci_low, ci_high and p, and where there are such margin and
    floor_difference.
    """
    if tests.empty:
        return tests
    tests = tests.assign(p_adjusted=adjusted_by_question(tests))
    verdicts = [
        comparison_verdict(
            (row.ci_low, row.ci_high),
            row.p_adjusted,
            significance,
            getattr(row, "margin", 0.0),
            getattr(row, "floor_difference", 0.0),
            METRICS[row.metric].direction == "higher",
        )
        for row in tests.itertuples()
    ]
    return tests.assign(verdict=verdicts)


def metric_title(row: Any) -> str:
    """The metric's title."""
    return METRICS[row.metric].title


def pair(row: Any) -> str:
    """The two conditions, as a difference."""
    return f"{row.condition} − {row.against}"


def difference(row: Any) -> str:
    """The difference at the metric's decimals."""
    return signed_text(row.difference, METRICS[row.metric].decimals)


def interval(row: Any) -> str:
    """The difference's interval at the metric's decimals."""
    return interval_text(row.ci_low, row.ci_high, METRICS[row.metric].decimals)


VERDICT_COLUMNS = {
    "p": lambda row: probability_text(row.p),
    "Adjusted p": lambda row: probability_text(row.p_adjusted),
    "Verdict": lambda row: row.verdict,
}
"""The last columns of a table of tests."""
