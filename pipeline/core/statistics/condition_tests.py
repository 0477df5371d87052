"""Paired tests of two conditions of one model that answered the same structured prompts.

Differences are own - other throughout; every metric tested is better where it is lower.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import family_median, hierarchical_bootstrap
from pipeline.core.statistics.paired_tests import holm

PAIRS = (("soft", "base"), ("hard", "base"), ("soft", "hard"), ("ssot", "soft"))
"""Condition tested, and the condition that it is tested against."""
TESTED = ("pit_wasserstein_1_all_answers", "wasserstein_1_normalised", "logit_kl_nats")
"""Per-prompt metrics that are tested; all are better where they are lower."""
SIGN_FLIPS = 9_999
"""Random sign patterns of a test; the least p of 48 tests is then 48 / 10,000 after Holm."""
COMPARISON_COLUMNS = (
    "model",
    "split",
    "metric",
    "condition",
    "against",
    "prompts",
    "undefined",
    "difference",
    "ci_low",
    "ci_high",
    "floor_difference",
    "p",
    "p_adjusted",
    "verdict",
)
Verdict = Literal["better", "worse", "cannot tell", "undefined"]
SIGNS_PER_BLOCK = 1_000_000
"""Bounds the memory of a permutation test."""


@dataclass(frozen=True)
class Comparison:
    """What a paired test says of one metric.

    Attributes:
        difference: Family median of the prompts' differences, own - other; NaN where a family has no pair.
        ci_low: Lower end of the 95% interval, which resamples families, then prompts.
        ci_high: Upper end.
        p: Two-sided p-value, not adjusted.
        prompts: Prompts with a finite value under both conditions.
        undefined: Prompts without.
    """

    difference: float
    ci_low: float
    ci_high: float
    p: float
    prompts: int
    undefined: int


def family_signed_rank_test(
    differences: np.ndarray, families: np.ndarray, replicates: int, rng: np.random.Generator
) -> float:
    """Two-sided permutation test of paired differences: signed ranks, every family with the same weight.

    The statistic is the sum over families of the mean of sign(d) * rank(|d|), ranks over all prompts (Wilcoxon 1945;
    a difference of 0 counts as 0, Pratt 1959): prompts of a heavy-tailed law, whose W1 knows no bound, weigh no more
    than others. Under the hypothesis that both conditions answer every prompt with the same law, and as often, the
    two can be swapped at each prompt, so the signs are independent and even. The observed signs count as one of the
    permutations, so p is at least 1 / (replicates + 1).

    Args:
        differences: float64[P], finite.
        families: str[P].
        replicates: Random sign patterns.
        rng: The test's stream.

    Returns:
        p; NaN without pairs.
    """
    if len(differences) == 0:
        return math.nan
    _, codes = np.unique(families, return_inverse=True)
    weighted = np.sign(differences) * stats.rankdata(np.abs(differences)) / np.bincount(codes)[codes]
    # Sums of the same numbers in another order differ by rounding; ties must count as ties.
    threshold = abs(float(weighted.sum())) - 1e-9
    extreme, block = 1, max(1, SIGNS_PER_BLOCK // len(differences))
    for start in range(0, replicates, block):
        size = (min(block, replicates - start), len(differences))
        signs = rng.integers(2, size=size, dtype=np.int8) * 2.0 - 1.0
        extreme += int((np.abs(signs @ weighted) >= threshold).sum())
    return extreme / (replicates + 1)


def compare(
    own: np.ndarray, other: np.ndarray, families: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> Comparison:
    """Compare two conditions on one metric of the same prompts.

    Args:
        own: float64[P], NaN where undefined.
        other: float64[P], the same prompts.
        families: str[P].
        seed: Root seed.
        names: Complete the names of the two random streams.
        replicates: Resamples of the interval.
    """
    differences = np.asarray(own, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    defined = np.isfinite(differences)
    difference = family_median(differences, families)
    low, high, p = math.nan, math.nan, math.nan
    # A median that leaves out a family would be another question: undefined, as in the tables.
    if math.isfinite(difference):
        rng = random_stream(seed, "condition tests", "bootstrap", *names)
        low, high = hierarchical_bootstrap(differences, families, "family_median", replicates=replicates, rng=rng)
        rng = random_stream(seed, "condition tests", "signs", *names)
        p = family_signed_rank_test(differences[defined], families[defined], SIGN_FLIPS, rng)
    return Comparison(difference, low, high, p, int(defined.sum()), int((~defined).sum()))


def comparison_verdict(difference: float, floor_difference: float, p_adjusted: float, significance: float) -> Verdict:
    """What a comparison says of the first condition, of a metric that is better where it is lower.

    A distance of samples is larger with fewer of them. A difference that is no larger than the difference of what
    perfect samplers of the two sizes score is not told apart from it, whatever its p-value.

    Args:
        difference: own - other.
        floor_difference: The same of perfect samplers; NaN or 0 where sizes agree or do not matter.
        p_adjusted: After Holm.
        significance: Level.
    """
    if not math.isfinite(difference) or not math.isfinite(p_adjusted):
        return "undefined"
    allowance = abs(floor_difference) if math.isfinite(floor_difference) else 0.0
    if p_adjusted > significance or abs(difference) <= allowance:
        return "cannot tell"
    return "better" if difference < 0 else "worse"


def compare_conditions(
    per_prompt: pd.DataFrame,
    floors: Mapping[tuple[str, str, str, str], float],
    seed: int,
    significance: float,
    replicates: int,
) -> pd.DataFrame:
    """All PAIRS of conditions of all models on all TESTED metrics; p-values adjusted over pairs and models.

    Args:
        per_prompt: Columns model, condition, split, family, prompt_id and those of TESTED that exist, NaN where a
            condition has none.
        floors: What a perfect sampler scores, by (model, condition, split, metric).
        seed: Root seed.
        significance: Level, over all pairs and models of one split and metric together (Holm).
        replicates: Resamples of each interval.

    Returns:
        COMPARISON_COLUMNS, one row per split, metric, model and pair of which both conditions have the metric on all
        prompts of either; in that order.

    Raises:
        ValueError: Two conditions of a model answered different prompts of a split.
    """
    rows = []
    for (split, model), members in per_prompt.groupby(["split", "model"], sort=False):
        conditions = {name: rows.set_index("prompt_id") for name, rows in members.groupby("condition", sort=False)}
        for own, other in PAIRS:
            if own in conditions and other in conditions:
                pair = conditions[own], conditions[other]
                rows += _pair_rows(pair, (str(model), str(split), own, other), floors, seed, replicates)
    table = pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS))
    table["p_adjusted"] = table.groupby(["split", "metric"])["p"].transform(lambda p: holm(p.to_numpy(np.float64)))
    columns = ("difference", "floor_difference", "p_adjusted")
    table["verdict"] = [
        comparison_verdict(*(float(value) for value in values), significance)
        for values in table[list(columns)].itertuples(index=False, name=None)
    ]
    ranks = {
        "split": list(dict.fromkeys(per_prompt["split"])),
        "metric": list(TESTED),
        "model": list(dict.fromkeys(per_prompt["model"])),
    }
    key = [[ranks[name].index(value) for value in table[name]] for name in ("model", "metric", "split")]
    return table.iloc[np.lexsort(key)].reset_index(drop=True) if len(table) else table


def _pair_rows(
    pair: tuple[pd.DataFrame, pd.DataFrame],
    names: tuple[str, str, str, str],
    floors: Mapping[tuple[str, str, str, str], float],
    seed: int,
    replicates: int,
) -> list[dict]:
    """Rows of one pair; ``names`` are model, split and the two conditions."""
    model, split, own, other = names
    if set(pair[0].index) != set(pair[1].index):
        raise ValueError(f"{model}: {own} and {other} answered different prompts of {split}")
    first, second = pair[0], pair[1].loc[pair[0].index]
    rows = []
    for metric in TESTED:
        if metric not in first or first[metric].isna().all() or second[metric].isna().all():
            continue
        values = (side[metric].to_numpy(np.float64) for side in (first, second))
        found = compare(*values, first["family"].to_numpy(), seed, (*names, metric), replicates)
        own_floor, other_floor = (floors.get((model, c, split, metric), math.nan) for c in (own, other))
        rows.append(
            {
                "model": model,
                "split": split,
                "metric": metric,
                "condition": own,
                "against": other,
                "prompts": found.prompts,
                "undefined": found.undefined,
                "difference": found.difference,
                "ci_low": found.ci_low,
                "ci_high": found.ci_high,
                "floor_difference": own_floor - other_floor,
                "p": found.p,
            }
        )
    return rows
