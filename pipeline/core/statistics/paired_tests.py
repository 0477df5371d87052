"""Tests of what changed between two conditions that answered the same items; differences are own - base.

Two questions are asked of every pair: is there a difference (McNemar, sign flips), and is it smaller than a
margin that was set beforehand (equivalence, two one-sided tests). A "no" to the first is not a "yes" to the second.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import optimize, special, stats

from pipeline.core.statistics.intervals import NORMAL_QUANTILE

Verdict = Literal["kept", "lost", "gained", "cannot tell"]
POWER = 0.8
"""Of the smallest difference that a test is said to detect."""
TEST_COLUMNS = (
    *("split", "metric", "difference", "ci_low", "ci_high", "margin", "detectable"),
    *("p_difference", "p_equivalence", "p_difference_adjusted", "p_equivalence_adjusted", "verdict"),
)
"""Of a table of tests against base, on every axis that has one; p-values are adjusted by ``adjusted_by_question``."""
PERMUTATIONS = 9_999
"""Random sign patterns of ``sign_flip_test``: near .01 a p-value is known to .001, after Holm over seven to .007."""
SIGNS_PER_BLOCK = 1_000_000
"""Bounds the memory of a permutation test."""
LARGEST_EXACT = 400
"""Pairs up to which ``tost_proportions`` is exact; beyond, Tango's score test is accurate."""
NUISANCE_ERROR = 1e-3
"""Probability that the nuisance parameter lies outside the range searched; it is added to the p-value."""


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's (1979) step-down adjusted p-values, float64[n]; NaN counts as one never rejected, and stays NaN."""
    p_values = np.asarray(p_values, dtype=np.float64)
    filled = np.where(np.isnan(p_values), 1.0, p_values)
    order = np.argsort(filled, kind="stable")
    steps = filled[order] * np.arange(len(filled), 0, -1)
    adjusted = np.empty_like(filled)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return np.where(np.isnan(p_values), np.nan, adjusted)


def discordant_counts(base: np.ndarray, own: np.ndarray) -> tuple[int, int]:
    """Items gained (base 0, own 1) and lost (base 1, own 0) of two 0/1 arrays. Raises ValueError on other values."""
    base, own = np.asarray(base, dtype=np.float64), np.asarray(own, dtype=np.float64)
    if base.shape != own.shape or not np.isin([base, own], (0, 1)).all():
        raise ValueError("a test of paired proportions needs two arrays of one shape, of values 0 and 1")
    return int((base < own).sum()), int((base > own).sum())


def mcnemar_exact(base: np.ndarray, own: np.ndarray) -> float:
    """Two-sided exact McNemar test on 0 and 1: of the items that differ, each is a fair coin. 1 without any."""
    gained, lost = discordant_counts(base, own)
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0


def sign_flip_test(
    differences: np.ndarray, replicates: int, rng: np.random.Generator, *, most_enumerated: int = 0
) -> float:
    """Two-sided permutation test that paired differences are symmetric around 0, on their mean; NaN without pairs.

    Up to ``most_enumerated`` differences all patterns of signs are tried; else the observed signs count as one of the
    random ones, so the p-value is at least 1 / (replicates + 1).
    """
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


def ratio_contributions(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """float64[n] whose mean is ``sum(numerators) / sum(denominators)`` and whose spread is that ratio's.

    Linearisation (delta method): R + (x_i - R y_i) / mean(y). With these a test on a mean serves for a ratio of sums,
    such as bits per byte over documents of unequal length.
    """
    numerators, denominators = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    ratio = numerators.sum() / denominators.sum()
    return ratio + (numerators - ratio * denominators) / denominators.mean()


def tost(differences: np.ndarray, margin: float) -> float:
    """p-value of equivalence: two one-sided t-tests that the mean difference is within (-margin, margin).

    The larger of the two (Schuirmann 1987); NaN with fewer than two pairs; 0 or 1 where all pairs differ by the same.
    For 0/1 values use ``tost_proportions``; with few differing items the t-test is far too sure.
    """
    differences = np.asarray(differences, dtype=np.float64)
    size = len(differences)
    if size < 2:
        return math.nan
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(size)
    if error == 0:
        return 0.0 if abs(mean) < margin else 1.0
    return float(max(stats.t.sf((mean + margin) / error, size - 1), stats.t.cdf((mean - margin) / error, size - 1)))


def _score(gained: np.ndarray, lost: np.ndarray, size: int, margin: float) -> np.ndarray:
    """Tango's (1998) score statistic of the hypothesis P(gained) - P(lost) = -margin; large speaks against it."""
    linear = -gained - lost - (2 * size - gained + lost) * margin
    constant = lost * margin * (1 + margin)
    likeliest = (np.sqrt(np.maximum(linear**2 - 8 * size * constant, 0)) - linear) / (4 * size)
    return (gained - lost + size * margin) / np.sqrt(size * (2 * likeliest - margin * (1 + margin)))


def _not_worse(gained: int, lost: int, size: int, margin: float) -> float:
    observed = _score(np.array(float(gained)), np.array(float(lost)), size, margin)
    if size > LARGEST_EXACT:
        return float(stats.norm.sf(observed))
    more, fewer = (grid.ravel().astype(np.float64) for grid in np.mgrid[0 : size + 1, 0 : size + 1])
    inside = more + fewer <= size
    more, fewer = more[inside], fewer[inside]
    extreme = _score(more, fewer, size, margin) >= observed - 1e-9
    more, fewer = more[extreme], fewer[extreme]
    counts = np.stack([more, fewer, size - more - fewer])
    coefficients = special.gammaln(size + 1) - special.gammaln(counts + 1).sum(axis=0)
    differing = stats.binomtest(gained + lost, size).proportion_ci(1 - NUISANCE_ERROR, method="exact")
    largest = 0.0
    for rate in np.linspace(max(differing.low, margin), max(differing.high, margin), 101):
        up, down = (rate - margin) / 2, (rate + margin) / 2
        logs = special.xlogy(more, up) + special.xlogy(fewer, down) + special.xlog1py(counts[2], -rate)
        largest = max(largest, float(np.exp(coefficients + logs).sum()))
    return min(1.0, largest + NUISANCE_ERROR)


def tost_proportions(base: np.ndarray, own: np.ndarray, margin: float) -> float:
    """p-value of equivalence of two conditions' rates of right answers, 0 and 1 on the same items; NaN without items.

    The larger p-value of two one-sided tests, against a loss and against a gain of at least ``margin``. Each is the
    exact unconditional test ordered by Tango's score (Tango 1998; Hsueh, Liu and Chen 2001): the probability of a
    result at least as far from the hypothesis, at the worst rate of differing items within a 99.9% Clopper-Pearson
    interval, plus the 0.1% outside of it (Berger and Boos 1994). Beyond LARGEST_EXACT items, the score test's normal
    approximation. At n = 100 and a margin of 0.05, identical answers give 0.008.
    """
    gained, lost = discordant_counts(base, own)
    size = len(base)
    if size == 0:
        return math.nan
    return max(_not_worse(gained, lost, size, margin), _not_worse(lost, gained, size, margin))


def tango_interval(base: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """95% score interval of the difference of two conditions' rates on the same items (Tango 1998); NaN without items.

    Unlike a bootstrap it has a width where few or no items differ: 100 identical answers leave -0.037 to 0.037.
    """
    gained, lost = discordant_counts(base, own)
    size = len(base)
    if size == 0:
        return math.nan, math.nan
    return -_largest_gain(lost, gained, size), _largest_gain(gained, lost, size)


def _largest_gain(gained: int, lost: int, size: int) -> float:
    counts = np.array(float(gained)), np.array(float(lost))

    def excess(difference: float) -> float:
        return float(_score(*counts, size, -difference)) + NORMAL_QUANTILE

    observed = (gained - lost) / size
    start, end = observed + 1e-9 * (1 - observed), 1 - 1e-12
    return float(optimize.brentq(excess, start, end)) if observed < 1 and excess(end) < 0 else 1.0


@dataclass(frozen=True)
class StratifiedMean:
    """The mean over strata (tasks) of the mean paired difference of their items, with its standard error.

    The interval's centre is a little nearer to 0 than the value.
    """

    value: float
    centre: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.centre - NORMAL_QUANTILE * self.error, self.centre + NORMAL_QUANTILE * self.error

    def p_equivalence(self, margin: float) -> float:
        """p-value of two one-sided tests that the mean is within (-margin, margin)."""
        if self.error == 0:
            return 0.0 if abs(self.centre) < margin else 1.0
        return float(stats.norm.sf((margin - abs(self.centre)) / self.error))

    def detectable(self, significance: float) -> float:
        """Smallest difference that a two-sided test of this standard error finds with probability POWER."""
        return float(stats.norm.ppf(1 - significance / 2) + stats.norm.ppf(POWER)) * self.error


def stratified_mean(differences: Sequence[np.ndarray], rates: Sequence[bool]) -> StratifiedMean:
    """All items of all tasks as one question: every task has the same weight, items are drawn within tasks.

    To a task of 0/1 answers (``rates``) one gained and one lost item are added for the interval (Bonett and Price
    2012), without which few differing items make it far too sure. NaN where another task has fewer than two items.
    """
    means, variances = [], []
    for own, is_rate in zip(differences, rates, strict=True):
        own = np.append(own, [1.0, -1.0]) if is_rate else np.asarray(own, dtype=np.float64)
        means.append(own.mean())
        variances.append(own.var(ddof=0 if is_rate else 1) / len(own) if len(own) > 1 else math.nan)
    value = float(np.mean([np.mean(own) for own in differences]))
    return StratifiedMean(value, float(np.mean(means)), math.sqrt(sum(variances)) / len(variances))


def verdict(
    difference: float, p_difference: float, p_equivalence: float, significance: float, higher_is_better: bool = True
) -> Verdict:
    """What the two adjusted p-values say.

    "kept": the difference is shown to be within the margin, even if it is also shown not to be 0; "lost" or
    "gained": it is shown not to be 0, but not to be within the margin; "cannot tell": neither, or undefined.
    """
    if p_equivalence <= significance:
        return "kept"
    if p_difference <= significance:
        return "gained" if (difference > 0) == higher_is_better else "lost"
    return "cannot tell"
