"""What tests against base say, by task and slice."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.axes.retention.accuracy import ALL, second_readings
from pipeline.core.statistics.paired_tests import POWER
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.retention import WITHOUT_BOS
from pipeline.report.tables.table import DASH, ListTable, interval_text, number_text, probability_text, signed_text

VERDICTS = ("kept", "lost", "gained", "cannot tell")
_TITLES = {
    "retention": ("retention_tests", "Tests of retention, by task", "Task", METRICS["accuracy"].decimals),
    "paloma": ("paloma_tests", "Tests of fit to text, by slice", "Slice", METRICS["bits_per_byte"].decimals),
}
_TEST_TITLES = (
    "Metric",
    "n",
    "Difference",
    "95% interval",
    "Margin",
    "Detectable",
    "p, different",
    "p, equivalent",
    "Verdict",
)
_READINGS = {
    "retention": "Difference: of the items' scores, fine-tuned minus base; above 0 is better. All items of all tasks "
    "together (all; every task with the same weight) are the primary question, which is asked by itself and not "
    "adjusted; the tasks say where a change lies. Intervals: Tango's for 0/1 scores, of all tasks stratified. Both "
    "readings of GSM8K are of the same answers: each is adjusted without the other, and only the flexible one is "
    "counted in the end. Where base has no more than the margin to lose, nothing is called kept.",
    "paloma": "Difference: of bits per byte, fine-tuned minus base; below 0 is better. All slices together (all) are "
    "the primary question, which is asked by itself and not adjusted; neither they nor a second variant of the same "
    "slices are counted in the end.",
}


def verdict_table(
    axis: str,
    tests: pd.DataFrame,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    methods: Sequence[str],
    significance: float,
) -> ListTable | None:
    """All tests of an axis, one row per model, condition and task or slice; None where there are none.

    ``tests`` has the columns model, condition and TEST_COLUMNS; ``metrics`` gives the number of items or documents.
    """
    if tests.empty:
        return None
    name, caption, unit, decimals = _TITLES[axis]
    keys = ["model", "condition", "split", "metric"]
    sizes = rows_of(metrics, axis=axis, family="")[[*keys, "n"]]
    tests = tests.assign(axis=axis).merge(sizes, on=keys, how="left")
    rows = [_test_row(row, models, decimals) for row in tests.itertuples()]
    counts = "; ".join(grouped({method: _listed(verdict_counts(tests, method)) for method in methods}, ":"))
    note = (
        f"{_READINGS[axis]} Both p-values are adjusted for the {unit.lower()}s of a model and condition (Holm), level "
        f"{significance:g}. Kept: the difference is shown to be within the margin on both sides (two one-sided tests), "
        "even if it is not 0. Lost or gained: shown not to be 0, but not to be within the margin. Cannot tell: "
        f"neither, with so few {'items' if axis == 'retention' else 'documents'}. Detectable: the smallest difference "
        f"that a test of this n finds in {POWER:.0%} of samples, given how many answers changed. Interval and "
        "detectable difference are of one test, without adjustment. "
        f"In all, {counts}."
    )
    return ListTable(name, caption, ["Model", "Condition", unit, *_TEST_TITLES], rows, 4, tests, note)


def _test_row(row: Any, models: Mapping[str, str], decimals: int) -> list[str]:
    title, size = METRICS[row.metric].title, "" if math.isnan(row.n) else f"{row.n:.0f}"
    return [
        models[row.model],
        row.condition,
        row.split,
        title[0].lower() + title[1:],
        size or DASH,
        signed_text(row.difference, decimals),
        interval_text(row.ci_low, row.ci_high, decimals),
        f"{row.margin:g}",
        number_text(row.detectable, decimals),
        probability_text(row.p_difference_adjusted),
        probability_text(row.p_equivalence_adjusted),
        f"{row.verdict} at n={size}" if size and row.verdict == "cannot tell" else row.verdict,
    ]


def one_variant(tests: pd.DataFrame) -> pd.DataFrame:
    """The tests without those of text without BOS where the same model has the default, too."""
    without = tests["metric"].str.endswith(WITHOUT_BOS)
    default = set(tests.loc[~without, "model"])
    return tests[~without | ~tests["model"].isin(default)]


def verdict_counts(tests: pd.DataFrame, condition: str) -> dict[str, int]:
    """How many tests of a condition came to each verdict, without ``all`` and second readings of the same answers."""
    chosen = one_variant(tests)
    left_out = [ALL, *second_readings(set(chosen["split"]))]
    counted = (chosen["condition"] == condition) & ~chosen["split"].isin(left_out)
    return _counts(chosen.loc[counted, "verdict"])


def _counts(verdicts: pd.Series) -> dict[str, int]:
    return {verdict: int((verdicts == verdict).sum()) for verdict in VERDICTS} if len(verdicts) else {}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def primary_counts(tests: pd.DataFrame, condition: str) -> dict[str, int]:
    """How many models came to each verdict on the primary question, all tasks or slices together."""
    chosen = one_variant(tests)
    return _counts(chosen.loc[(chosen["condition"] == condition) & (chosen["split"] == ALL), "verdict"])


def grouped(texts: Mapping[str, str], between: str = "") -> list[str]:
    """Names with one text together: ``{"a": "1 kept", "b": "1 lost", "c": "1 kept"}`` as "a, c 1 kept", "b 1 lost"."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        if text:
            names.setdefault(text, []).append(name)
    return [f"{', '.join(members)}{between} {text}" for text, members in names.items()]
