"""Lists by task and slice: the estimates of gp-IRT with their errors, and what tests against base say."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS
from pipeline.axes.retention.accuracy import ALL, second_readings
from pipeline.core.statistics.paired_tests import POWER
from pipeline.report.evaluations import rows_of
from pipeline.report.tables.retention import WITHOUT_BOS
from pipeline.report.tables.table import DASH, ListTable, interval_text, probability_text, signed_text

VERDICTS = ("kept", "lost", "gained", "cannot tell")
ESTIMATES = ("accuracy", "irt", "p_irt", "gp_irt", "gp_irt_standard_error", "gp_irt_published_error")
"""Metrics that are listed."""
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


def estimate_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> ListTable | None:
    """Accuracy on the items, IRT, p-IRT and gp-IRT by model, condition and task, with the errors of gp-IRT.

    Args:
        metrics: The tidy metrics table.
        models: Model name -> display name.
        conditions: Base and the methods, in order.

    Returns:
        One row per model, condition and task; None where nothing was evaluated.
    """
    frame = _estimates(metrics, models, conditions)
    if frame.empty:
        return None
    rows = [
        [models[row["model"]], row["condition"], row["task"], *(_estimate_text(row[metric]) for metric in ESTIMATES)]
        for row in frame.to_dict("records")
    ]
    return ListTable(
        "retention_estimates",
        "Estimates of accuracy on the whole benchmark, and their errors",
        ["Model", "Condition", "Task", *(METRICS[metric].column_title for metric in ESTIMATES)],
        rows,
        3,
        frame,
        "Accuracy: unweighted mean over the items. IRT: weighted mean over the items. p-IRT: of the items' answers "
        "with those that the item response model predicts for the rest of the benchmark. gp-IRT: of IRT and p-IRT. "
        "Standard error: of gp-IRT, by bootstrap over items. Published error: the method's mean absolute error over "
        "other language models with the published item parameters (tinyBenchmarks); no part of the standard error.",
    )


def _estimate_text(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else DASH


def _estimates(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> pd.DataFrame:
    """Columns model, condition, task and the metrics of ESTIMATES, NaN where there are none."""
    columns = ["model", "condition", "split"]
    rows = rows_of(metrics, axis="retention", family="")
    chosen = rows[
        (rows["split"] != "all")
        & rows["metric"].isin(ESTIMATES)
        & rows["model"].isin(models)
        & rows["condition"].isin(conditions)
    ]
    values = chosen.set_index([*columns, "metric"])["value"].unstack().reindex(columns=list(ESTIMATES))
    # Configured order of models and conditions, and tasks as they come; a table of files is in the order of paths.
    ranks = {"model": list(models), "condition": list(conditions), "split": list(dict.fromkeys(chosen["split"]))}
    ordered = values.sort_index(key=lambda level: level.map(ranks[level.name].index))
    return ordered.reset_index().rename(columns={"split": "task"}).rename_axis(columns=None)


def verdict_table(
    axis: str,
    tests: pd.DataFrame,
    metrics: pd.DataFrame,
    models: Mapping[str, str],
    methods: Sequence[str],
    significance: float,
) -> ListTable | None:
    """All tests of an axis, one row per model, condition and task or slice; None where there are none.

    Args:
        axis: "retention" or "paloma".
        tests: Columns model, condition and TEST_COLUMNS.
        metrics: The tidy metrics table; gives the number of items or documents of each test.
        models: Model name -> display name.
        methods: The conditions that are tested, in order.
        significance: Level of the tests, over the tasks or slices of one model and condition together.
    """
    if tests.empty:
        return None
    name, caption, unit, decimals = _TITLES[axis]
    tests = tests.assign(axis=axis, n=_sizes(axis, tests, metrics))
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
    return [
        models[row.model],
        row.condition,
        row.split,
        _metric_title(row.metric),
        DASH if math.isnan(row.n) else f"{row.n:.0f}",
        signed_text(row.difference, decimals),
        interval_text(row.ci_low, row.ci_high, decimals),
        f"{row.margin:g}",
        f"{row.detectable:.{decimals}f}" if math.isfinite(row.detectable) else DASH,
        probability_text(row.p_difference_adjusted),
        probability_text(row.p_equivalence_adjusted),
        _verdict(row.verdict, row.n),
    ]


def _sizes(axis: str, tests: pd.DataFrame, metrics: pd.DataFrame) -> pd.Series:
    """Items or documents of each test, the n of the metric of the same name; NaN where there is none."""
    chosen = rows_of(metrics, axis=axis, family="")
    columns = ("model", "condition", "split", "metric")
    keys = zip(*(chosen[column] for column in columns), strict=True)
    sizes = dict(zip(keys, chosen["n"], strict=True))
    found = [sizes.get(key, math.nan) for key in tests[list(columns)].itertuples(index=False, name=None)]
    return pd.Series(found, index=tests.index, dtype=float)


def one_variant(tests: pd.DataFrame) -> pd.DataFrame:
    """The tests without those of text without BOS where the same model has the default, too."""
    without = tests["metric"].str.endswith(WITHOUT_BOS)
    default = set(tests.loc[~without, "model"])
    return tests[~without | ~tests["model"].isin(default)]


def verdict_counts(tests: pd.DataFrame, condition: str) -> dict[str, int]:
    """How many tests of a condition came to each verdict; empty where there are none.

    Not counted are all slices together, text without BOS beside the default, and a second reading of the same
    answers (GSM8K, strict) beside the first.
    """
    chosen = one_variant(tests)
    left_out = [ALL, *second_readings(set(chosen["split"]))]
    counted = (chosen["condition"] == condition) & ~chosen["split"].isin(left_out)
    verdicts = chosen.loc[counted, "verdict"]
    return {verdict: int((verdicts == verdict).sum()) for verdict in VERDICTS} if len(verdicts) else {}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def primary_counts(tests: pd.DataFrame, condition: str) -> dict[str, int]:
    """How many models came to each verdict on the primary question, all tasks or slices together."""
    chosen = one_variant(tests)
    verdicts = chosen.loc[(chosen["condition"] == condition) & (chosen["split"] == ALL), "verdict"]
    return {verdict: int((verdicts == verdict).sum()) for verdict in VERDICTS} if len(verdicts) else {}


def grouped(texts: Mapping[str, str], between: str = "") -> list[str]:
    """Names with one text together: ``{"a": "1 kept", "b": "1 lost", "c": "1 kept"}`` as "a, c 1 kept", "b 1 lost".

    Args:
        texts: By name; the names of an empty text are left out.
        between: What stands between the names and their text.
    """
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        if text:
            names.setdefault(text, []).append(name)
    return [f"{', '.join(members)}{between} {text}" for text, members in names.items()]


def primary_sentence(axis: str, tests: pd.DataFrame, methods: Sequence[str]) -> str:
    """The verdicts on an axis's primary question in words; empty where there are none.

    Args:
        axis: "retention" or "paloma".
        tests: Columns model, condition, split, metric and verdict.
        methods: The conditions that are tested, in order.
    """
    found = grouped({method: _listed(primary_counts(tests, method)) for method in methods})
    unit = {"retention": "tasks", "paloma": "slices"}[axis]
    return f"Tested against base, all {unit} together: {'; '.join(found)}." if found else ""


def _verdict(verdict: str, n: float) -> str:
    return f"{verdict} at n={n:.0f}" if verdict == "cannot tell" and not math.isnan(n) else verdict


def _metric_title(metric: str) -> str:
    title = METRICS[metric].title
    return title[0].lower() + title[1:]
