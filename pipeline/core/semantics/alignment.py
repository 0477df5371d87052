"""Whether a model is uncertain where people disagree (arXiv:2508.08204), and not merely where there is more to choose.

Both the entropy of people's answers and that of a model's grow with the number of options: independent answers to
questions with 2 to 6 options have entropies that correlate at about 0.7. So the raw correlation never stands alone.
"""

import math

import numpy as np
from scipy.stats import rankdata


def partial_correlation(
    first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Pearson's correlation of what is left of both after the mean of each stratum.

    Args:
        first: float64[..., N].
        second: float64[..., N].
        strata: int[N], the number of options.
        weights: float64[..., N], how often each of N counts; None for once.

    Returns:
        float64[...]; NaN where nothing is left of one, or N is below 3.
    """
    first, second, weights = np.broadcast_arrays(_scaled(first), _scaled(second), 1.0 if weights is None else weights)
    groups = (np.asarray(strata)[:, None] == np.unique(strata)).astype(np.float64)
    sizes = weights @ groups

    def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        means = (weights * one) @ groups * ((weights * other) @ groups) / np.where(sizes > 0, sizes, 1)
        return (weights * one * other).sum(axis=-1) - means.sum(axis=-1)

    spreads = np.array([product(first, first), product(second, second)])
    # Rounding leaves a hair of a stratum that is constant.
    defined = (spreads > 1e-12).all(axis=0) & (len(groups) >= 3)
    found = product(first, second) / np.sqrt(np.where(defined, spreads.prod(axis=0), 1))
    return np.where(defined, np.clip(found, -1, 1), math.nan)


def _scaled(values: np.ndarray) -> np.ndarray:
    """Values within 1/2 of 0, whose products do not lose the digits behind their mean."""
    values = np.asarray(values, dtype=np.float64)
    low, high = values.min(initial=math.inf), values.max(initial=-math.inf)
    return (values - (low + high) / 2) / (high - low) if high > low else np.zeros(values.shape)


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of float64[N] and float64[N]; NaN where one is constant or N is below 3."""
    return float(partial_correlation(first, second, np.zeros(len(first))))


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation of float64[N] and float64[N]; NaN where one is constant or N is below 3."""
    return correlation(rankdata(first), rankdata(second))


def orders_within(strata: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Random permutations int64[R, N] of the places 0 to N - 1 that leave every place in its stratum, int[N]."""
    _, group = np.unique(strata, return_inverse=True)
    orders = np.empty((replicates, len(group)), dtype=np.int64)
    # Sorted by stratum, in random order within each.
    orders[:, np.argsort(group, kind="stable")] = np.argsort(group + rng.random(orders.shape), axis=1)
    return orders


def human_alignment(
    measure: np.ndarray, people_entropy: np.ndarray, options: np.ndarray, *, replicates: int, rng: np.random.Generator
) -> dict[str, float]:
    """Alignment of a measure of uncertainty with the entropy of people's answers over N questions.

    The headline is the partial correlation given the number of options, with a permutation test that exchanges
    questions with as many options.

    Args:
        measure: float64[N], larger for less certain.
        people_entropy: float64[N], nats.
        options: int[N], options of each question, at least 2.
        replicates: Permutations.
        rng: Of the permutations.

    Returns:
        partial_pearson; normalised_pearson and normalised_spearman, both sides over ln of the number of options;
        raw_pearson, never to stand alone; and permutation_p, two-sided.
    """
    measure, options = np.asarray(measure, dtype=np.float64), np.asarray(options)
    value = float(partial_correlation(measure, people_entropy, options))
    permuted = partial_correlation(measure[orders_within(options, replicates, rng)], people_entropy, options)
    extreme = int((np.abs(permuted) >= abs(value) - 1e-12).sum())
    normalised = measure / np.log(options), people_entropy / np.log(options)
    return {
        "partial_pearson": value,
        "normalised_pearson": correlation(*normalised),
        "normalised_spearman": rank_correlation(*normalised),
        "raw_pearson": correlation(measure, people_entropy),
        "permutation_p": (extreme + 1) / (replicates + 1) if math.isfinite(value) else math.nan,
    }
