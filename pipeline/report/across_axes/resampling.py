"""Paired tests of two conditions beyond numbers: open-ended answers, NoveltyBench and multiple choice.

Differences are own - other. Open-ended requests and NoveltyBench's prompts are answered under every condition, so
their values are paired by prompt. There is one multiple-choice request: what varies are its independent generations,
and two conditions are two samples.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from pipeline.axes.mcq.multiple_choice import (
    total_variation,
    total_variation_draws,
    total_variation_floor,
    total_variations,
)
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import newcombe_interval, paired_mean_draws, percentile_interval
from pipeline.core.statistics.paired_tests import PERMUTATIONS, sign_flip_test


@dataclass(frozen=True)
class TransferTest:
    """A difference of two tabulated figures and the test of it; numbers are NaN where one is undefined.

    Attributes:
        n: Prompts defined under both conditions; of the multiple-choice request the fewer generations.
        value: The first condition's figure.
        value_against: The second's.
        difference: value - value_against.
        ci_low: Lower end of its 95% interval.
        ci_high: Upper end.
        floor_difference: The same of uniform samplers of as many answers; NaN where there is no such thing.
        p: Two-sided, not adjusted.
    """

    n: int
    value: float
    value_against: float
    difference: float
    ci_low: float
    ci_high: float
    floor_difference: float
    p: float


def compare_prompts(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> TransferTest:
    """Compare means over prompts: a bootstrap over prompts, and a sign-flip test of the prompts' differences.

    Args:
        own: float64[P] by prompt, NaN where undefined.
        other: float64[P], the same prompts.
        seed: Root seed.
        names: Complete the streams' names.
        replicates: Resamples of the interval.
    """
    own, other = (np.asarray(side, dtype=np.float64) for side in (own, other))
    pairs = own - other
    defined = np.isfinite(pairs)
    if not defined.any():
        return TransferTest(0, *[np.nan] * 7)
    rng = random_stream(seed, "transfer tests", "bootstrap", *names)
    draws = paired_mean_draws(own, other, replicates=replicates, rng=rng)
    interval = percentile_interval(draws) if len(own) > 1 else (np.nan, np.nan)
    value, against = float(np.nanmean(own)), float(np.nanmean(other))
    p = sign_flip_test(pairs[defined], PERMUTATIONS, random_stream(seed, "transfer tests", "signs", *names))
    return TransferTest(int(defined.sum()), value, against, value - against, *interval, np.nan, p)


def compare_rates(successes: tuple[int, int], trials: tuple[int, int]) -> TransferTest:
    """Compare rates of two independent samples: Newcombe's interval and Fisher's exact test."""
    (own, other), (size, other_size) = successes, trials
    if 0 in trials:
        return TransferTest(0, *[np.nan] * 7)
    value, against = own / size, other / other_size
    p = float(stats.fisher_exact([[own, size - own], [other, other_size - other]]).pvalue)
    interval = newcombe_interval(successes, trials)
    return TransferTest(min(trials), value, against, value - against, *interval, np.nan, p)


def compare_total_variation(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> TransferTest:
    """Compare the total variation distances from uniform of two independent samples of letters.

    The permutation test deals the letters of both to two samples of the same sizes. A smaller sample lies farther
    from uniform by chance, so what counts is the distance of the difference from its mean over the deals. The
    hypothesis is that both conditions place the answer by the same law; the statistic sees differences in balance
    only, so the test is of that.

    Args:
        own: int64[K], questions that parse by letter.
        other: int64[K].
        seed: Root seed.
        names: Complete the streams' names.
        replicates: Resamples of the interval.
    """
    sizes = int(own.sum()), int(other.sum())
    if min(sizes) < 2:
        return TransferTest(min(sizes), total_variation(own), total_variation(other), *[np.nan] * 5)
    rng = random_stream(seed, "transfer tests", "deals", *names)
    dealt = rng.multivariate_hypergeometric(own + other, sizes[0], size=PERMUTATIONS)
    deals = total_variations(dealt) - total_variations(own + other - dealt)
    value, against = total_variation(own), total_variation(other)
    observed = abs(value - against - deals.mean()) - 1e-12
    p = (1 + int((np.abs(deals - deals.mean()) >= observed).sum())) / (PERMUTATIONS + 1)
    interval = percentile_interval(total_variation_difference_draws(own, other, seed, names, replicates))
    floors = total_variation_floor(sizes[0]) - total_variation_floor(sizes[1])
    return TransferTest(min(sizes), value, against, value - against, *interval, floors, p)


def total_variation_difference_draws(
    own: np.ndarray, other: np.ndarray, seed: int, names: tuple[str, ...], replicates: int
) -> np.ndarray:
    """float64[replicates] of the difference on resamples of both samples, each freed of the bootstrap's own bias."""
    rng = random_stream(seed, "transfer tests", "bootstrap", *names)
    return total_variation_draws(own, replicates, rng) - total_variation_draws(other, replicates, rng)
