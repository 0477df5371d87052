"""What a condition keeps of its base checkpoint's abilities: TinyBenchmarks by column, gp-IRT and paired tests.

A column is a task under one metric, as in the paper's Table 21; GSM8K has two (strict and flexible extraction of the
same answers). The mean over tasks counts GSM8K once, by flexible extraction; the paper's mean counts both. The whole
of GSM8K has columns of its own, with an accuracy and no gp-IRT; it enters neither mean, unless there is nothing else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.retention.irt import (
    SCENARIOS,
    IrtScenario,
    bootstrap_performance,
    estimate_performance,
    resample_counts,
)
from pipeline.core.retention.tasks import ALL_COLUMNS, WHOLE_COLUMNS
from pipeline.core.statistics.condition_tests import ALL_PARTS
from pipeline.core.statistics.intervals import percentile_interval, wilson_interval
from pipeline.core.statistics.paired_tests import (
    PERMUTATIONS,
    TEST_COLUMNS,
    StratifiedMean,
    holm,
    mcnemar_exact,
    sign_flip_test,
    stratified_mean,
    tango_interval,
    tost,
    tost_proportions,
    verdict,
)

GSM8K_COLUMNS = ("tinyGSM8k (flexible)", "tinyGSM8k (strict)", "GSM8K (flexible)", "GSM8K (strict)")
"""Columns of one benchmark; the first that there is stands for it in the mean over tasks."""
CONTINUOUS_METRICS = ("mc2",)
"""Metrics whose values lie in [0, 1]; all others are 0 or 1."""
ALL = ALL_PARTS
"""All items of all tasks together: the primary question of retention, which is asked by itself."""


@dataclass(frozen=True)
class ColumnResult:
    """One column under one condition: float64[n] correctness by item, and by name estimates and their float64[R] on
    resamples of the items: "gp_irt", which a whole benchmark has none of, and "accuracy"."""

    values: np.ndarray
    estimates: Mapping[str, float]
    draws: Mapping[str, np.ndarray]


Results = Mapping[str, ColumnResult]
"""By column."""


def column_result(scenario: IrtScenario | None, values: np.ndarray, counts: np.ndarray) -> ColumnResult:
    """Estimates of one column and their bootstrap; ``scenario`` is None for a whole benchmark."""
    estimates, draws = {"accuracy": float(values.mean())}, {"accuracy": counts @ values / len(values)}
    if scenario is not None:
        estimates["gp_irt"], ability = estimate_performance(scenario, values)
        draws["gp_irt"] = bootstrap_performance(scenario, values, counts, ability)
    return ColumnResult(values, estimates, draws)


def all_results(
    values: Mapping[str, Mapping[str, np.ndarray]],
    scenarios: Mapping[str, IrtScenario],
    *,
    seed: int,
    model: str,
    replicates: int,
) -> dict[str, dict[str, ColumnResult]]:
    """Results by condition and column of ``values``; every condition sees the same resamples of a task's items."""

    def result(column: str, own: np.ndarray) -> ColumnResult:
        task = ALL_COLUMNS[column][0]
        counts = resample_counts(len(own), replicates, random_stream(seed, "bootstrap", "retention", model, task))
        return column_result(None if column in WHOLE_COLUMNS else scenarios[SCENARIOS[task]], own, counts)

    return {
        condition: {column: result(column, own) for column, own in columns.items()}
        for condition, columns in values.items()
    }


def mean_columns(columns: Sequence[str], gsm8k: Literal["once", "twice"] = "once") -> list[str]:
    """The columns that a mean over tasks is over: one per task, or ("twice") the paper's, with both of GSM8K."""
    tiny = [column for column in columns if column not in WHOLE_COLUMNS]
    if gsm8k == "twice" and tiny:
        return tiny
    left_out = second_readings(columns)
    return [column for column in columns if column not in left_out]


def second_readings(columns: Collection[str]) -> list[str]:
    """Columns of the same answers, or the same benchmark, as another one, which stands for them in the mean."""
    return [column for column in GSM8K_COLUMNS if column in columns][1:]


def metric_rows(own: Results, base: Results | None, gsm8k: Literal["once", "twice"]) -> list[dict[str, Any]]:
    """Metrics by column and over all, where they are means over tasks with GSM8K ``once`` or ``twice``.

    Rows with split, metric, value, n (items), ci_low, ci_high (95%) and, where there is a base, change, change_low and
    change_high; the change is a metric of its own as well. Intervals are bootstrapped over items, but that of a task's
    share of right answers is Wilson's, and that of its change Tango's. gp_irt_paper_mean counts GSM8K twice.
    """
    rows = []
    for split, members in [*((column, [column]) for column in own), (ALL, mean_columns(list(own), gsm8k))]:
        for name in own[members[0]].estimates:
            row = _row(split, name, own, base, members)
            rows.append(row)
            if base is not None:
                change = {"value": row["change"], "ci_low": row["change_low"], "ci_high": row["change_high"]}
                rows.append({"split": split, "metric": f"{name}_difference", "n": row["n"], **change})
    if "gp_irt" in own[members[0]].estimates:
        mean = _row(ALL, "gp_irt", own, base, mean_columns(list(own), "twice"))
        rows.append({**mean, "metric": "gp_irt_paper_mean"})
    return rows


def _row(split: str, name: str, own: Results, base: Results | None, members: Sequence[str]) -> dict[str, Any]:
    """The mean of an estimate over columns with its interval and its change from base."""
    value, draws = _mean(own, members, name)
    low, high = percentile_interval(draws)
    first, is_rate = members[0], name == "accuracy" and len(members) == 1 and _is_rate(members[0])
    if is_rate:
        low, high = wilson_interval(int(own[first].values.sum()), len(own[first].values))
    size = sum(len(own[column].values) for column in mean_columns(members))
    row = {"split": split, "metric": name, "value": value, "n": size, "ci_low": low, "ci_high": high}
    if base is None:
        return row
    base_value, base_draws = _mean(base, members, name)
    low, high = percentile_interval(draws - base_draws)
    # With both readings of GSM8K in the mean the tasks are no strata; the bootstrap knows that they share answers.
    if is_rate:
        low, high = tango_interval(base[first].values, own[first].values)
    elif name == "accuracy" and list(members) == mean_columns(members):
        low, high = _stratified(own, base, members).interval
    return {**row, "change": value - base_value, "change_low": low, "change_high": high}


def _mean(results: Results, members: Sequence[str], name: str) -> tuple[float, np.ndarray]:
    """The mean over columns of an estimate, and float64[R] of its resamples."""
    value = float(np.mean([results[column].estimates[name] for column in members]))
    return value, np.mean([results[column].draws[name] for column in members], axis=0)


def _is_rate(column: str) -> bool:
    return ALL_COLUMNS[column][1] not in CONTINUOUS_METRICS


def _differences(own: Results, base: Results, members: Sequence[str]) -> list[np.ndarray]:
    return [own[column].values - base[column].values for column in members]


def _stratified(own: Results, base: Results, members: Sequence[str]) -> StratifiedMean:
    return stratified_mean(_differences(own, base, members), list(map(_is_rate, members)))


def paired_test_table(
    own: Results, base: Results | None, *, margin: float, significance: float, seed: int, names: tuple[str, ...]
) -> pd.DataFrame:
    """Paired tests of accuracy by column and of all tasks together, TEST_COLUMNS; no rows without a base.

    All items of all tasks together (ALL) are the primary question: 100 items of a task seldom show that anything was
    kept. It is asked by itself, so it is not adjusted: p_difference flips the signs of the items' differences, every
    task with the same weight, and p_equivalence is ``stratified_mean``'s.

    By column, p_difference is McNemar's exact test for 0/1 metrics and a sign-flip permutation test for mc2;
    p_equivalence is the exact paired equivalence test for 0/1 metrics and a t-based one for mc2 (see
    ``pipeline.core.statistics.paired_tests``). Both are adjusted by Holm over the tasks. Every column of GSM8K is
    adjusted among the other tasks, in the place of the one that stands for it in the mean.
    ``detectable`` is the smallest difference that the test would find in four of five samples of this size, before
    adjustment. Where base is right no more often than the margin there is nothing to lose, and nothing is "kept".
    """
    if base is None:
        return pd.DataFrame(columns=list(TEST_COLUMNS))
    members = mean_columns(list(own))
    parts = {column: [column] for column in own} | {ALL: members}
    rows: dict[str, dict[str, Any]] = {}
    for split, inside in parts.items():
        found = _stratified(own, base, inside)
        interval = found.interval
        if split != ALL and _is_rate(split):
            sides = base[split].values, own[split].values
            interval = tango_interval(*sides)
            different, equivalent = mcnemar_exact(*sides), tost_proportions(*sides, margin)
        else:
            differences = _differences(own, base, inside)
            weighted = np.concatenate([values / len(values) for values in differences])
            rng = random_stream(seed, "sign_flips", "retention", *names, split)
            different = sign_flip_test(weighted, PERMUTATIONS, rng)
            equivalent = found.p_equivalence(margin) if split == ALL else tost(differences[0], margin)
        rows[split] = {
            "split": split,
            "metric": "accuracy",
            "margin": margin,
            "difference": found.value,
            "ci_low": interval[0],
            "ci_high": interval[1],
            "p_difference": different,
            "p_equivalence": equivalent,
            "detectable": found.detectable(significance),
        }
    for split, row in rows.items():
        family = [split if {split, column} <= set(GSM8K_COLUMNS) else column for column in members]
        family = [ALL] if split == ALL else family
        for name in ("p_difference", "p_equivalence"):
            adjusted = holm(np.array([rows[part][name] for part in family]))
            row[f"{name}_adjusted"] = float(adjusted[family.index(split)])
        p_values = row["p_difference_adjusted"], row["p_equivalence_adjusted"]
        row["verdict"] = verdict(row["difference"], *p_values, significance)
        if row["verdict"] == "kept" and _mean(base, parts[split], "accuracy")[0] <= margin:
            row["verdict"] = "cannot tell"
    return pd.DataFrame(list(rows.values()), columns=list(TEST_COLUMNS))


def item_table(own: Results, base: Results | None) -> pd.DataFrame:
    """One row per column and item: split, item, value and base_value (NaN without base)."""
    tables = []
    for column, result in own.items():
        values = {"value": result.values, "base_value": np.nan if base is None else base[column].values}
        tables.append(pd.DataFrame({"split": column, "item": np.arange(len(result.values)), **values}))
    return pd.concat(tables, ignore_index=True)
