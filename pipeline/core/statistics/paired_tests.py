"""Holm's correction, and the permutation test of paired differences."""

import itertools
import math

import numpy as np

PERMUTATIONS = 9_999
"""Random sign patterns of ``sign_flip_test``: near .01 a p-value is known to .001, after Holm over seven to .007."""
SIGNS_PER_BLOCK = 1_000_000
"""Bounds the memory of a permutation test."""


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
