"""Whether a model is uncertain where people disagree (arXiv:2508.08204), and not merely where there is more to choose.

Both the entropy of people's answers and that of a model's grow with the number of options: independent answers to
questions with 2 to 6 options have entropies that correlate at about 0.7. So the raw correlation never stands alone.
"""

import math

import numpy as np
from scipy.stats import rankdata

from pipeline.core.statistics.intervals import percentile_interval


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of float64[N] and float64[N]; NaN where one is constant or N is below 3."""
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation of float64[N] and float64[N]; NaN where one is constant or N is below 3."""
    return correlation(rankdata(first), rankdata(second))


def partial_correlation(first: np.ndarray, second: np.ndarray, strata: np.ndarray) -> float:
    """Pearson's correlation of what is left of both after the mean of each stratum; NaN where nothing is left of one.

    Args:
        first: float64[N].
        second: float64[N].
        strata: int[N], the number of options.
    """
    parts = [_centred(np.asarray(values, dtype=np.float64), np.asarray(strata)) for values in (first, second)]
    # Rounding leaves a hair of a stratum that is constant.
    return correlation(*parts) if all(np.abs(part).max() > 1e-12 for part in parts) else math.nan


def _centred(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    _, place = np.unique(strata, return_inverse=True)
    return values - (np.bincount(place, values) / np.bincount(place))[place]


def _order_within(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random permutation of the places 0 to N - 1 that leaves every place in its stratum."""
    order, keys = np.arange(len(strata)), rng.random(len(strata))
    order[np.argsort(strata, kind="stable")] = np.lexsort((keys, strata))
    return order


def human_alignment(
    measure: np.ndarray,
    people_entropy: np.ndarray,
    options: np.ndarray,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Alignment of a measure of uncertainty with the entropy of people's answers over N questions.

    The headline is the partial correlation given the number of options, with a 95% bootstrap interval over questions
    and a permutation test that exchanges questions with as many options.

    Args:
        measure: float64[N], larger for less certain.
        people_entropy: float64[N], nats.
        options: int[N], options of each question, at least 2.
        replicates: Resamples of the interval, and permutations of the test.
        rng: Of both.

    Returns:
        raw_pearson, never to stand alone; normalised_pearson and normalised_spearman, both sides over ln of the number
        of options; partial_pearson, partial_low, partial_high; and permutation_p, two-sided.
    """
    measure, people_entropy = np.asarray(measure, dtype=np.float64), np.asarray(people_entropy, dtype=np.float64)
    options = np.asarray(options)
    scale = np.log(options)
    size, value = len(measure), partial_correlation(measure, people_entropy, options)
    permuted = np.array(
        [partial_correlation(measure[_order_within(options, rng)], people_entropy, options) for _ in range(replicates)]
    )
    picks = rng.integers(size, size=(replicates, size))
    draws = np.array([partial_correlation(measure[pick], people_entropy[pick], options[pick]) for pick in picks])
    low, high = percentile_interval(draws) if math.isfinite(value) else (math.nan, math.nan)
    extreme = int((np.abs(permuted) >= abs(value) - 1e-12).sum()) if math.isfinite(value) else 0
    return {
        "raw_pearson": correlation(measure, people_entropy),
        "normalised_pearson": correlation(measure / scale, people_entropy / scale),
        "normalised_spearman": rank_correlation(measure / scale, people_entropy / scale),
        "partial_pearson": value,
        "partial_low": low,
        "partial_high": high,
        "permutation_p": (extreme + 1) / (replicates + 1) if math.isfinite(value) else math.nan,
    }
