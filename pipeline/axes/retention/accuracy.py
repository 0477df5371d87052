"""What a condition keeps of its base checkpoint's abilities: TinyBenchmarks by column, gp-IRT and paired tests.

A column is a task under one metric, as in the paper's Table 21; GSM8K has two (strict and flexible extraction of the
same answers). The mean over tasks counts GSM8K once, by flexible extraction; the paper's mean counts both. The whole
of GSM8K has columns of its own, with an accuracy and no gp-IRT; it enters neither mean, unless there is nothing else.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.retention.irt import (
    PUBLISHED_ERRORS,
    SCENARIOS,
    IrtScenario,
    Performance,
    bootstrap_performance,
    estimate_performance,
    item_probabilities,
    resample_counts,
)
from pipeline.core.retention.tasks import ALL_COLUMNS, WHOLE_COLUMNS
from pipeline.core.statistics.condition_tests import ALL_PARTS, adjusted_by_question
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval, wilson_interval
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
ESTIMATES = ("gp_irt", "p_irt", "irt", "accuracy")
ALL = ALL_PARTS
"""All items of all tasks together: the primary question of retention, which is asked by itself."""


@dataclass(frozen=True)
class ColumnResult:
    """One column under one condition.

    Attributes:
        values: float64[n] correctness by item.
        estimates: By name of ESTIMATES, of a whole benchmark accuracy alone; accuracy is the plain mean of ``values``.
        draws: float64[R] of the same on resamples of the items.
        ability: float64[D]; D is 0 for a whole benchmark.
        predicted: float64[n], P_i at that ability for the same items; NaN without one.
    """

    values: np.ndarray
    estimates: Mapping[str, float]
    draws: Mapping[str, np.ndarray]
    ability: np.ndarray
    predicted: np.ndarray


def column_result(scenario: IrtScenario, values: np.ndarray, counts: np.ndarray) -> ColumnResult:
    """Estimates of one column and their bootstrap.

    Args:
        scenario: The task's item parameters.
        values: float64[n] correctness, in the order of the scenario's seen items.
        counts: float64[R, n] resamples; conditions that share them are paired.
    """
    found, ability = estimate_performance(scenario, values)
    drawn = bootstrap_performance(scenario, values, counts, ability)
    seen = scenario.seen
    predicted = item_probabilities(ability[None], scenario.discriminations[:, seen], scenario.offsets[seen])[0]
    return ColumnResult(
        values,
        {**_by_name(found), "accuracy": float(values.mean())},
        {**_by_name(drawn), "accuracy": counts @ values / len(values)},
        ability,
        predicted,
    )


def whole_result(values: np.ndarray, counts: np.ndarray) -> ColumnResult:
    """Accuracy on a whole benchmark and its bootstrap; arguments as of ``column_result``."""
    estimates, draws = {"accuracy": float(values.mean())}, {"accuracy": counts @ values / len(values)}
    return ColumnResult(values, estimates, draws, np.empty(0), np.full(len(values), math.nan))


def _by_name(performance: Performance) -> dict:
    return {"gp_irt": performance.gp_irt, "p_irt": performance.p_irt, "irt": performance.irt}


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
        values: By condition ("own", "base") and column, float64[n].
        scenarios: By scenario.
        seed: Root seed; the model completes the streams' names.
        model: Model name.
        replicates: Resamples.
    """
    results = {condition: {} for condition in values}
    for condition, columns in values.items():
        for column, found in columns.items():
            task = ALL_COLUMNS[column][0]
            rng = random_stream(seed, "bootstrap", "retention", model, task)
            counts = resample_counts(len(found), replicates, rng)
            whole = column in WHOLE_COLUMNS
            results[condition][column] = (
                whole_result(found, counts) if whole else column_result(scenarios[SCENARIOS[task]], found, counts)
            )
    return results


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
    """Metrics by column and over all.

    Args:
        own: Results by column.
        base: The base checkpoint's, for paired differences; None for the base itself.
        gsm8k: How often GSM8K enters the mean over tasks.

    Returns:
        Rows with split, family (""), metric, value, n (items), ci_low, ci_high (95%), floor and undefined. Intervals
        are bootstrapped over items, but that of a task's share of right answers is Wilson's, and that of its
        difference from base Tango's. By column: ESTIMATES; gp_irt_standard_error (bootstrap) and
        gp_irt_published_error (of the method, see PUBLISHED_ERRORS); gp_irt_difference and accuracy_difference,
        own - base. Over all the same means over tasks, and gp_irt_paper_mean, in which GSM8K counts twice. Of a
        whole benchmark accuracy and its difference alone.
    """
    rows = []
    for column, result in own.items():
        size = len(result.values)
        for name in result.estimates:
            rows.append(_row(column, name, result.estimates[name], size, result.draws[name]))
        rows[-1] |= _share_interval(own, [column])
        if column not in WHOLE_COLUMNS:
            rows.append(_row(column, "gp_irt_standard_error", float(result.draws["gp_irt"].std(ddof=1)), size))
            published = PUBLISHED_ERRORS[SCENARIOS[ALL_COLUMNS[column][0]]]
            rows.append(_row(column, "gp_irt_published_error", published, size))
        rows += _differences(column, own, base, [column])
    members = mean_columns(list(own), gsm8k)
    size = sum(len(own[column].values) for column in mean_columns(list(own)))
    for name in own[members[0]].estimates:
        rows.append(_row(ALL, name, *_mean(own, members, name, size)))
    rows[-1] |= _share_interval(own, members)
    if members[0] not in WHOLE_COLUMNS:
        spread = float(_mean(own, members, "gp_irt", size)[2].std(ddof=1))
        rows.append(_row(ALL, "gp_irt_standard_error", spread, size))
        rows.append(_row(ALL, "gp_irt_paper_mean", *_mean(own, mean_columns(list(own), "twice"), "gp_irt", size)))
    return rows + _differences(ALL, own, base, members)


def _mean(results: Mapping[str, ColumnResult], members: Sequence[str], name: str, size: int) -> tuple:
    value = float(np.mean([results[column].estimates[name] for column in members]))
    return value, size, np.mean([results[column].draws[name] for column in members], axis=0)


def _differences(
    split: str, own: Mapping[str, ColumnResult], base: Mapping[str, ColumnResult] | None, members: Sequence[str]
) -> list[dict]:
    if base is None:
        return []
    rows = []
    for name in ("gp_irt", "accuracy"):
        if any(name not in own[column].estimates for column in members):
            continue
        size = sum(len(own[column].values) for column in mean_columns(members))
        (value, _, draws), (base_value, _, base_draws) = (_mean(r, members, name, size) for r in (own, base))
        rows.append(_row(split, f"{name}_difference", value - base_value, size, draws - base_draws))
    # With both readings of GSM8K in the mean the tasks are no strata; the bootstrap knows that they share answers.
    if list(members) == mean_columns(members):
        low, high = _difference_interval({column: (own[column].values, base[column].values) for column in members})
        rows[-1] |= {"ci_low": low, "ci_high": high}
    return rows


def _share_interval(own: Mapping[str, ColumnResult], members: Sequence[str]) -> dict[str, float]:
    """Wilson's interval in the place of a bootstrapped one, where the mean is one column's share of right answers."""
    if len(members) > 1 or not _is_rate(members[0]):
        return {}
    values = own[members[0]].values
    return dict(zip(("ci_low", "ci_high"), wilson_interval(int(values.sum()), len(values)), strict=True))


def _is_rate(column: str) -> bool:
    return ALL_COLUMNS[column][1] not in CONTINUOUS_METRICS


def _difference_interval(pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """95% interval of the mean over columns of own - base: Tango's of a single rate, else ``stratified_mean``'s."""
    if len(pairs) == 1:
        ((column, (own, base)),) = pairs.items()
        if _is_rate(column):
            return tango_interval(base, own)
    return _stratified({column: own - base for column, (own, base) in pairs.items()}).interval


def _stratified(differences: Mapping[str, np.ndarray]) -> StratifiedMean:
    return stratified_mean(list(differences.values()), [_is_rate(column) for column in differences])


def _row(split: str, metric: str, value: float, n: int, draws: np.ndarray | None = None) -> dict:
    low, high = (math.nan, math.nan) if draws is None else percentile_interval(draws)
    return {"split": split, **metric_row(metric, Estimate(value, n, low, high, int(math.isnan(value))))}


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
    rows = {c: _tests(c, own[c], base[c], margin, seed, names) for c in own}
    together = _tests_together(own, base, mean_columns(list(own)), margin, seed, names)
    for name in ("p_difference", "p_equivalence"):
        for column, row in rows.items():
            family = [column if {column, c} <= set(GSM8K_COLUMNS) else c for c in mean_columns(list(rows))]
            adjusted = adjusted_by_question(pd.DataFrame([rows[c] for c in family]), name)
            row[f"{name}_adjusted"] = float(adjusted[family.index(column)])
        together[f"{name}_adjusted"] = float(adjusted_by_question(pd.DataFrame([together]), name)[0])
    for column, row in [*rows.items(), (ALL, together)]:
        members = mean_columns(list(own)) if column == ALL else [column]
        found = _stratified({name: own[name].values - base[name].values for name in members})
        row["detectable"] = found.detectable(significance)
        adjusted_pair = (row["p_difference_adjusted"], row["p_equivalence_adjusted"])
        row["verdict"] = verdict(row["difference"], *adjusted_pair, significance)
        if row["verdict"] == "kept" and np.mean([base[name].estimates["accuracy"] for name in members]) <= margin:
            row["verdict"] = "cannot tell"
    return pd.DataFrame([*rows.values(), together], columns=list(TEST_COLUMNS))


def _tests_together(
    own: Mapping[str, ColumnResult],
    base: Mapping[str, ColumnResult],
    members: Sequence[str],
    margin: float,
    seed: int,
    names: tuple[str, ...],
) -> dict:
    """The row of all tasks together."""
    differences = {column: own[column].values - base[column].values for column in members}
    found = _stratified(differences)
    weighted = np.concatenate([values / len(values) for values in differences.values()])
    rng = random_stream(seed, "sign_flips", "retention", *names, ALL)
    low, high = found.interval
    return {
        "split": ALL,
        "metric": "accuracy",
        "difference": found.value,
        "ci_low": low,
        "ci_high": high,
        "margin": margin,
        "p_difference": sign_flip_test(weighted, PERMUTATIONS, rng),
        "p_equivalence": found.p_equivalence(margin),
    }


def _tests(
    column: str, own: ColumnResult, base: ColumnResult, margin: float, seed: int, names: tuple[str, ...]
) -> dict:
    """One row of the test table, unadjusted."""
    differences = own.values - base.values
    if not _is_rate(column):
        rng = random_stream(seed, "sign_flips", "retention", *names, column)
        different, equivalent = sign_flip_test(differences, PERMUTATIONS, rng), tost(differences, margin)
    else:
        different = mcnemar_exact(base.values, own.values)
        equivalent = tost_proportions(base.values, own.values, margin)
    low, high = _difference_interval({column: (own.values, base.values)})
    return {
        "split": column,
        "metric": "accuracy",
        "difference": float(differences.mean()),
        "ci_low": low,
        "ci_high": high,
        "margin": margin,
        "p_difference": different,
        "p_equivalence": equivalent,
    }


def item_table(own: Mapping[str, ColumnResult], base: Mapping[str, ColumnResult] | None) -> pd.DataFrame:
    """One row per column and item: split, item, value, base_value (NaN for the base itself), predicted P_i(theta)."""
    tables = []
    for column, result in own.items():
        table = pd.DataFrame({"split": column, "item": np.arange(len(result.values)), "value": result.values})
        table["base_value"] = math.nan if base is None else base[column].values
        tables.append(table.assign(predicted=result.predicted))
    return pd.concat(tables, ignore_index=True)
