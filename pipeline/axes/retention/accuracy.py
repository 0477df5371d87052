"""What a condition keeps of its base checkpoint's abilities: TinyBenchmarks by column, gp-IRT and paired tests.

A column is a task under one metric, as in the paper's Table 21; GSM8K has two (strict and flexible extraction of the
same answers). The mean over tasks counts GSM8K once, by flexible extraction; the paper's mean counts both. The whole
of GSM8K has columns of its own, with an accuracy and no gp-IRT; it enters neither mean, unless there is nothing else.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.retention.irt import (
    PUBLISHED_ERRORS,
    SCENARIOS,
    IrtScenario,
    bootstrap_performance,
    estimate_performance,
    item_probabilities,
    resample_counts,
)
from pipeline.core.retention.tasks import ALL_COLUMNS, WHOLE_COLUMNS
from pipeline.core.statistics.condition_tests import ALL_PARTS, adjusted_by_question
from pipeline.core.statistics.intervals import percentile_interval, wilson_interval
from pipeline.core.statistics.paired_tests import (
    PERMUTATIONS,
    TEST_COLUMNS,
    StratifiedMean,
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
    """One column under one condition.

    Attributes:
        values: float64[n] correctness by item.
        estimates: By name: gp_irt, p_irt, irt and accuracy, the plain mean of ``values``; of a whole benchmark
            accuracy alone.
        draws: float64[R] of the same on resamples of the items.
        predicted: float64[n], P_i at the fitted ability for the same items; NaN without one.
    """

    values: np.ndarray
    estimates: Mapping[str, float]
    draws: Mapping[str, np.ndarray]
    predicted: np.ndarray


def column_result(scenario: IrtScenario | None, values: np.ndarray, counts: np.ndarray) -> ColumnResult:
    """Estimates of one column and their bootstrap; ``scenario`` is None for a whole benchmark."""
    estimates, draws = {"accuracy": float(values.mean())}, {"accuracy": counts @ values / len(values)}
    if scenario is None:
        return ColumnResult(values, estimates, draws, np.full(len(values), math.nan))
    found, ability = estimate_performance(scenario, values)
    drawn, seen = bootstrap_performance(scenario, values, counts, ability), scenario.seen
    predicted = item_probabilities(ability[None], scenario.discriminations[:, seen], scenario.offsets[seen])[0]
    return ColumnResult(values, vars(found) | estimates, vars(drawn) | draws, predicted)


def all_results(
    values: Mapping[str, Mapping[str, np.ndarray]],
    scenarios: Mapping[str, IrtScenario],
    *,
    seed: int,
    model: str,
    replicates: int,
) -> dict[str, dict[str, ColumnResult]]:
    """Results by condition and column; every condition sees the same resamples of a task's items.

    Args:
        values: By condition and column, float64[n].
        scenarios: By scenario.
        seed: Root seed; the model completes the streams' names.
        model: Model name.
        replicates: Resamples.
    """

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


def metric_rows(
    own: Mapping[str, ColumnResult], base: Mapping[str, ColumnResult] | None, gsm8k: Literal["once", "twice"]
) -> list[dict]:
    """Metrics by column and over all, where they are means over tasks.

    Args:
        own: Results by column.
        base: The base checkpoint's, for paired changes; None where there is nothing to compare with.
        gsm8k: How often GSM8K enters the mean over tasks.

    Returns:
        Rows with split, metric, value, n (items) and, where there are such, ci_low, ci_high (95%), change, change_low
        and change_high. Intervals are bootstrapped over items, but that of a task's share of right answers is Wilson's,
        and that of its change Tango's. Beside the estimates: gp_irt_standard_error (bootstrap), gp_irt_published_error
        (by column, of the method, see PUBLISHED_ERRORS), gp_irt_paper_mean (over all, GSM8K counts twice), and the
        changes of gp_irt and accuracy as metrics of their own.
    """
    rows = []
    for split, members in [*((column, [column]) for column in own), (ALL, mean_columns(list(own), gsm8k))]:
        found = {name: _row(split, name, own, base, members) for name in own[members[0]].estimates}
        rows += found.values()
        if base is not None:
            rows += [difference_row(found[name]) for name in ("gp_irt", "accuracy") if name in found]
        if "gp_irt" in found:
            spread = float(_mean(own, members, "gp_irt")[1].std(ddof=1))
            rows.append(_plain_row(split, "gp_irt_standard_error", spread, own, members))
            if split == ALL:
                mean = _row(ALL, "gp_irt", own, base, mean_columns(list(own), "twice"))
                rows.append(mean | {"metric": "gp_irt_paper_mean"})
            else:
                published = PUBLISHED_ERRORS[SCENARIOS[ALL_COLUMNS[split][0]]]
                rows.append(_plain_row(split, "gp_irt_published_error", published, own, members))
    return rows


def _plain_row(
    split: str, metric: str, value: float, own: Mapping[str, ColumnResult], members: Sequence[str]
) -> dict[str, Any]:
    size = sum(len(own[column].values) for column in mean_columns(members))
    return {"split": split, "metric": metric, "value": value, "n": size}


def _row(
    split: str,
    name: str,
    own: Mapping[str, ColumnResult],
    base: Mapping[str, ColumnResult] | None,
    members: Sequence[str],
) -> dict[str, Any]:
    """The mean of an estimate over columns with its interval and its change from base."""
    value, draws = _mean(own, members, name)
    low, high = percentile_interval(draws)
    first, is_rate = members[0], name == "accuracy" and len(members) == 1 and _is_rate(members[0])
    if is_rate:
        low, high = wilson_interval(int(own[first].values.sum()), len(own[first].values))
    row = {**_plain_row(split, name, value, own, members), "ci_low": low, "ci_high": high}
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


def _mean(results: Mapping[str, ColumnResult], members: Sequence[str], name: str) -> tuple[float, np.ndarray]:
    """The mean over columns of an estimate, and float64[R] of its resamples."""
    value = float(np.mean([results[column].estimates[name] for column in members]))
    return value, np.mean([results[column].draws[name] for column in members], axis=0)


def difference_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The change of a metric from base as a metric of its own."""
    names = {"value": "change", "n": "n", "ci_low": "change_low", "ci_high": "change_high"}
    labels = {"split": row["split"], "metric": f"{row['metric']}_difference"}
    return labels | {name: row[source] for name, source in names.items()}


def _is_rate(column: str) -> bool:
    return ALL_COLUMNS[column][1] not in CONTINUOUS_METRICS


def _stratified(
    own: Mapping[str, ColumnResult], base: Mapping[str, ColumnResult], members: Sequence[str]
) -> StratifiedMean:
    differences = [own[column].values - base[column].values for column in members]
    return stratified_mean(differences, list(map(_is_rate, members)))


def paired_test_table(
    own: Mapping[str, ColumnResult],
    base: Mapping[str, ColumnResult] | None,
    *,
    margin: float,
    significance: float,
    seed: int,
    names: tuple[str, ...],
) -> pd.DataFrame:
    """Paired tests of accuracy by column and of all tasks together, TEST_COLUMNS; no rows for the base itself.

    All items of all tasks together (ALL) are the primary question: 100 items of a task seldom show that anything was
    kept. It is asked by itself, so it is not adjusted: p_difference flips the signs of the items' differences, every
    task with the same weight, and p_equivalence is ``stratified_mean``'s.

    By column, p_difference is McNemar's exact test for 0/1 metrics and a sign-flip permutation test for mc2;
    p_equivalence is the exact paired equivalence test for 0/1 metrics and a t-based one for mc2 (see
    ``pipeline.core.statistics.paired_tests``). Both are adjusted by Holm over the tasks. Every column of GSM8K is
    adjusted among the other tasks, in the place of the one that stands for it in the mean.
    ``detectable`` is the smallest difference that the test would find in four of five samples of this size, before
    adjustment. Where base is right no more often than the margin there is nothing to lose, and nothing is "kept".

    Args:
        own: Results by column.
        base: The base checkpoint's, by column, or None.
        margin: Largest change of accuracy that counts as none.
        significance: Level of the adjusted tests.
        seed: Root seed of the permutation test; ``names`` complete its stream's name.
        names: Model and condition.
    """
    if base is None:
        return pd.DataFrame(columns=list(TEST_COLUMNS))
    members = mean_columns(list(own))
    parts = {column: [column] for column in own} | {ALL: members}
    rows = {
        split: {"split": split, "metric": "accuracy", "margin": margin}
        | _test(split, own, base, inside, margin, random_stream(seed, "sign_flips", "retention", *names, split))
        for split, inside in parts.items()
    }
    for split, inside in parts.items():
        row = rows[split]
        family = [split if {split, column} <= set(GSM8K_COLUMNS) else column for column in members]
        family = [ALL] if split == ALL else family
        for name in ("p_difference", "p_equivalence"):
            adjusted = adjusted_by_question(pd.DataFrame([rows[part] for part in family]), name)
            row[f"{name}_adjusted"] = float(adjusted[family.index(split)])
        adjusted_pair = (row["p_difference_adjusted"], row["p_equivalence_adjusted"])
        row["detectable"] = _stratified(own, base, inside).detectable(significance)
        row["verdict"] = verdict(row["difference"], *adjusted_pair, significance)
        if row["verdict"] == "kept" and _mean(base, inside, "accuracy")[0] <= margin:
            row["verdict"] = "cannot tell"
    return pd.DataFrame(list(rows.values()), columns=list(TEST_COLUMNS))


def _test(
    split: str,
    own: Mapping[str, ColumnResult],
    base: Mapping[str, ColumnResult],
    members: Sequence[str],
    margin: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Difference, interval and unadjusted p-values of one row of the test table."""
    differences = [own[column].values - base[column].values for column in members]
    found = _stratified(own, base, members)
    low, high = found.interval
    if split != ALL and _is_rate(split):
        low, high = tango_interval(base[split].values, own[split].values)
        different = mcnemar_exact(base[split].values, own[split].values)
        equivalent = tost_proportions(base[split].values, own[split].values, margin)
    else:
        weighted = np.concatenate([values / len(values) for values in differences])
        different = sign_flip_test(weighted, PERMUTATIONS, rng)
        equivalent = found.p_equivalence(margin) if split == ALL else tost(differences[0], margin)
    return {
        "difference": found.value,
        "ci_low": low,
        "ci_high": high,
        "p_difference": different,
        "p_equivalence": equivalent,
    }


def item_table(own: Mapping[str, ColumnResult], base: Mapping[str, ColumnResult] | None) -> pd.DataFrame:
    """One row per column and item: split, item, value, base_value (NaN without base), predicted P_i(theta)."""
    tables = []
    for column, result in own.items():
        other = math.nan if base is None else base[column].values
        columns = {"value": result.values, "base_value": other, "predicted": result.predicted}
        tables.append(pd.DataFrame({"split": column, "item": np.arange(len(result.values)), **columns}))
    return pd.concat(tables, ignore_index=True)
