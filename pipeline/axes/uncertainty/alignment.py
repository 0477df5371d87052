"""Whether a model is uncertain where people disagree (arXiv:2508.08204), and not merely where there is more to choose.

The entropies of people's answers and of a model's both grow with the number of options offered: independent answers to
questions with 2 to 6 options have entropies that correlate at about 0.7. So correlations are within questions with as
many options. Where none were offered, the number of classes that people gave is a result of their disagreement, and
nothing to condition on.
"""

import math
from collections.abc import Mapping

import numpy as np


def rank_correlation(
    first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Spearman's correlation of float64[N] and float64[N], of what is left of ranks after the mean of each stratum.

    ``strata``: int[N], the number of options; ``weights``: float64[..., N]. float64[...], NaN where nothing is left.
    """
    weights = np.ones(len(first)) if weights is None else weights
    return _correlation(_ranks(first, weights), _ranks(second, weights), strata, weights)


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mid-ranks float64[..., N] of values float64[N] that count as often as their weights."""
    distinct, place = np.unique(values, return_inverse=True)
    totals = weights @ (place[:, None] == np.arange(len(distinct))).astype(np.float64)
    return (totals.cumsum(axis=-1) - totals / 2)[..., place]


def _correlation(first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Correlation within strata of values float64[..., N]."""
    groups = (np.asarray(strata)[:, None] == np.unique(strata)).astype(np.float64)
    sizes = weights @ groups

    def centred(values: np.ndarray) -> np.ndarray:
        return values - ((weights * values) @ groups / np.where(sizes > 0, sizes, 1)) @ groups.T

    one, other = centred(first), centred(second)
    spread = np.sqrt((weights * one**2).sum(axis=-1) * (weights * other**2).sum(axis=-1))
    # Rounding leaves a hair of a stratum that is constant.
    defined = (spread > 1e-9) & (len(strata) >= 3)
    found = (weights * one * other).sum(axis=-1) / np.where(defined, spread, 1)
    return np.where(defined, np.clip(found, -1, 1), math.nan)


def orders_within(strata: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Random permutations int64[R, N] of the places 0 to N - 1 that leave every place in its stratum, int[N]."""
    _, group = np.unique(strata, return_inverse=True)
    orders = np.empty((replicates, len(group)), dtype=np.int64)
    # Sorted by stratum, in random order within each.
    orders[:, np.argsort(group, kind="stable")] = np.argsort(group + rng.random(orders.shape), axis=1)
    return orders


def adjusted_p_values(
    measures: Mapping[str, np.ndarray],
    people_entropy: np.ndarray,
    strata: np.ndarray,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Two-sided p of the correlation of each measure with people's entropy, adjusted for all of them (max-T).

    The same permutations for all measures; a p is the share of them in which the largest T of any measure reaches its
    own (Westfall and Young 1993). T = |correlation| sqrt(n - 1), as a measure that few questions have has large
    correlations by chance. Measures are NaN on questions that they do not have; so is a p whose correlation is
    undefined.
    """
    # A question keeps to those with as many options, and with the same measures.
    known = np.isfinite(np.stack(list(measures.values())))
    patterns = np.unique(np.vstack([strata, known]), axis=1, return_inverse=True)[1].ravel()
    orders = orders_within(patterns, replicates, rng)
    largest, found = np.zeros(replicates), {}
    for name, values in measures.items():
        own = np.isfinite(values)
        scale = math.sqrt(max(0, int(own.sum()) - 1))
        found[name] = scale * abs(float(rank_correlation(values[own], people_entropy[own], strata[own])))
        if math.isfinite(found[name]):
            once, ranks = np.ones(int(own.sum())), np.zeros(len(own))
            ranks[own] = _ranks(people_entropy[own], once)
            drawn = _correlation(_ranks(values[own], once), ranks[orders][:, own], strata[own], once)
            largest = np.fmax(largest, scale * np.abs(drawn))
    return {
        name: float((1 + (largest >= value - 1e-12).sum()) / (1 + replicates)) if math.isfinite(value) else math.nan
        for name, value in found.items()
    }
