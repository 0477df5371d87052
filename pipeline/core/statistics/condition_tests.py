"""Paired tests of two conditions of one model that answered the same structured prompts; differences are own - other.
Families are resampled and swapped: prompt by prompt would reject far too often where they differ."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import over_families, paired_difference_draws, percentile_interval

SSOT_PAIRS = (("ssot", "base"), ("ssot", "soft"))
"""Tests of String Seed of Thought: the condition tested, and the condition that it is tested against."""
FamilyStatistic = Literal["family_median", "family_mean"]
TESTED = {
    "pit_wasserstein_1_all_answers": "family_median",
    "wasserstein_1_normalised": "family_median",
    "logit_kl_nats": "family_mean",
}
"""Per-prompt metrics that are tested, all better where lower, with how they are tabulated (the paper's Tables 6, 7)."""
PERMUTATIONS = 9_999
"""Of ``sign_flip_test``: near .01 a p-value is known to .001, after Holm over seven to .007."""
SIGNS_PER_BLOCK = 1_000_000
"""Bounds the memory of a permutation test."""
MOST_ENUMERATED = 13
"""Families up to which all 2^n sign patterns are tried instead of PERMUTATIONS random ones."""
QUESTION = ("model", "metric", "condition", "against")
"""What names a question. Holm's correction is over its parts (splits, tasks, slices), on every axis."""
ALL_PARTS = "all"
"""Split of all parts together: a question by itself, which is not corrected."""
COMPARISON_COLUMNS = (
    *("model", "split", "metric", "condition", "against", "families", "prompts", "undefined"),
    *("value", "value_against", "difference", "ci_low", "ci_high", "margin", "floor_difference"),
    *("p", "p_adjusted", "verdict"),
)
TEST_COLUMNS = (
    *("split", "metric", "difference", "ci_low", "ci_high", "margin"),
    *("p_difference", "p_difference_adjusted", "verdict"),
)
"""Of the table of an evaluation's own tests against base."""
Verdict = Literal["better", "worse", "no relevant difference", "cannot tell", "undefined"]


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's (1979) step-down adjusted p-values, float64[n]; NaN counts as one never rejected, and stays NaN."""
    p_values = np.asarray(p_values, dtype=np.float64)
    filled = np.where(np.isnan(p_values), 1.0, p_values)
    order = np.argsort(filled, kind="stable")
    steps = filled[order] * np.arange(len(filled), 0, -1)
    adjusted = np.empty_like(filled)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return np.where(np.isnan(p_values), np.nan, adjusted)


def sign_flip_test(
    differences: np.ndarray, replicates: int, rng: np.random.Generator, most_enumerated: int = 0
) -> float:
    """Two-sided permutation test on the mean of paired differences; NaN without pairs. All patterns of signs are tried
    up to ``most_enumerated``; else the observed signs count as one of the random ones."""
    differences = np.asarray(differences, dtype=np.float64)
    size = len(differences)
    if size == 0:
        return math.nan
    # Sums of the same numbers in another order differ by rounding; ties must count as ties.
    threshold = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()
    if size <= most_enumerated:
        patterns = np.array(list(itertools.product((-1.0, 1.0), repeat=size)))
        return float((np.abs(patterns @ differences) >= threshold).mean())
    extreme, block = 1, max(1, SIGNS_PER_BLOCK // size)
    for start in range(0, replicates, block):
        signs = rng.integers(2, size=(min(block, replicates - start), size), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ differences) >= threshold).sum())
    return extreme / (replicates + 1)


def family_signed_rank_test(
    differences: np.ndarray, families: np.ndarray, replicates: int, rng: np.random.Generator
) -> float:
    """Two-sided permutation test of float64[P] finite paired differences; NaN without pairs. The statistic is the sum
    over families of the mean of sign(d) * rank(|d|), ranks over all prompts (Wilcoxon 1945; 0 counts as 0, Pratt 1959).
    All prompts of a family change sign together; with F families p is at least 2 / 2^F."""
    _, codes = np.unique(families, return_inverse=True)
    terms = np.sign(differences) * stats.rankdata(np.abs(differences)) / np.bincount(codes)[codes]
    return sign_flip_test(np.bincount(codes, weights=terms), replicates, rng, MOST_ENUMERATED)


def compare(
    own: np.ndarray,
    other: np.ndarray,
    families: np.ndarray,
    seed: int,
    names: tuple[str, ...],
    replicates: int,
    statistic: FamilyStatistic = "family_median",
) -> dict[str, float]:
    """Compare two conditions, float64[P] each with NaN where undefined, on one metric of the same prompts: some of
    COMPARISON_COLUMNS, all but the sizes NaN where a family has no pair."""
    own, other = (np.asarray(side, dtype=np.float64) for side in (own, other))
    defined = np.isfinite(own - other)
    value = against = low = high = p = math.nan
    if math.isfinite(over_families(own - other, families, statistic)):
        value, against = (over_families(side, families, statistic) for side in (own, other))
        if len(own) > 1:
            rng = random_stream(seed, "condition tests", "bootstrap", *names)
            drawn = {"replicates": replicates, "rng": rng, "statistic": statistic}
            low, high = percentile_interval(paired_difference_draws(own, other, families, **drawn))
        rng = random_stream(seed, "condition tests", "families", *names)
        p = family_signed_rank_test((own - other)[defined], families[defined], PERMUTATIONS, rng)
    sizes = {"families": len(set(families.tolist())), "prompts": int(defined.sum()), "undefined": int((~defined).sum())}
    figures = {"value": value, "value_against": against, "difference": value - against}
    return {**sizes, **figures, "ci_low": low, "ci_high": high, "p": p}


def comparison_verdict(
    interval: tuple[float, float],
    p_adjusted: float,
    significance: float,
    margin: float = 0.0,
    floor_difference: float = 0.0,
    higher_is_better: bool = False,
) -> Verdict:
    """Says "better" or "worse" where the test rejects and the whole interval lies beyond the margin, "no relevant
    difference" where it lies within. What perfect samplers of the two sizes would differ by makes either harder."""
    low, high = interval
    if not all(math.isfinite(number) for number in (low, high, p_adjusted)):
        return "undefined"
    allowance = abs(floor_difference) if math.isfinite(floor_difference) else 0.0
    beyond, within = margin + allowance, margin - allowance
    if p_adjusted <= significance and (high < -beyond or low > beyond):
        return "better" if (low > beyond) == higher_is_better else "worse"
    return "no relevant difference" if -within < low and high < within else "cannot tell"


def adjusted_by_question(table: pd.DataFrame, column: str = "p") -> pd.Series:
    """p-values adjusted by Holm over the parts (splits, tasks, slices) of each question: those of QUESTION's columns
    that the table has. All parts together are a question by themselves."""
    keys = [table[name] for name in QUESTION if name in table]
    groups = table.groupby([*keys, table["split"] == ALL_PARTS], sort=False)[column]
    return groups.transform(lambda p: holm(p.to_numpy(np.float64)))


def method_pairs(conditions: Sequence[str]) -> list[tuple[str, str]]:
    """The condition tested and the one it is tested against: every method against base; soft against hard, as in the
    paper; every further method against soft."""
    methods = [name for name in conditions if name != "base"]
    further = [name for name in methods if name not in ("soft", "hard")]
    pairs = [(name, "base") for name in methods] + [("soft", "hard")] + [(name, "soft") for name in further]
    return [pair for pair in pairs if set(pair) <= set(conditions)]


def compare_conditions(
    per_prompt: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    floors: Mapping[tuple[str, str, str, str], float],
    margins: Mapping[str, float],
    seed: int,
    significance: float,
    replicates: int,
    tested: Mapping[str, FamilyStatistic] = TESTED,
) -> pd.DataFrame:
    """Pairs of conditions of all models on all tested metrics: COMPARISON_COLUMNS, by split, metric, model and pair.
    ``floors`` has what a perfect sampler scores, by (model, condition, split, metric); ``margins`` the smallest
    difference that matters. Raises ValueError where two conditions answered different prompts."""
    rows = []
    for (split, model), members in per_prompt.groupby(["split", "model"], sort=False):
        conditions = {name: rows.set_index("prompt_id") for name, rows in members.groupby("condition", sort=False)}
        for own, other in pairs:
            if own not in conditions or other not in conditions:
                continue
            first, second = conditions[own], conditions[other]
            if set(first.index) != set(second.index):
                raise ValueError(f"{model}: {own} and {other} answered different prompts of {split}")
            second, families = second.loc[first.index], first["family"].to_numpy()
            for metric, statistic in tested.items():
                if metric not in first or first[metric].isna().all() or second[metric].isna().all():
                    continue
                values = (side[metric].to_numpy(np.float64) for side in (first, second))
                names = (str(model), str(split), own, other, metric)
                own_floor, other_floor = (floors.get((model, c, split, metric), math.nan) for c in (own, other))
                labels = {"model": model, "split": split, "metric": metric, "condition": own, "against": other}
                compared = compare(*values, families, seed, names, replicates, statistic)
                bars = {"margin": margins[metric], "floor_difference": own_floor - other_floor}
                rows.append({**labels, **compared, **bars})
    table = pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS))
    if table.empty:
        return table
    table["p_adjusted"] = adjusted_by_question(table)
    table["verdict"] = [
        comparison_verdict((row.ci_low, row.ci_high), row.p_adjusted, significance, row.margin, row.floor_difference)
        for row in table.itertuples()
    ]
    orders = {name: list(dict.fromkeys(per_prompt[name])) for name in ("split", "model")} | {"metric": list(tested)}
    return table.sort_values(
        ["split", "metric", "model"], key=lambda column: column.map(orders[column.name].index), kind="stable"
    ).reset_index(drop=True)
