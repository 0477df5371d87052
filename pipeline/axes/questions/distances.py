"""Distances of laws over classes of answers."""

import math

import numpy as np
from scipy.special import rel_entr

SMOOTHING = 0.5
"""Added to every count behind the KL divergence (Krichevsky and Trofimov 1981)."""


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Half the L1 distance of laws float64[..., K]; float64[...] in [0, 1]."""
    return np.abs(np.asarray(first) - np.asarray(second)).sum(axis=-1) / 2


def jensen_shannon(first: np.ndarray, second: np.ndarray) -> float:
    """Jensen-Shannon divergence in bits of laws float64[K] (Lin 1991), in [0, 1]."""
    middle = (np.asarray(first) + np.asarray(second)) / 2
    return max(0.0, float(rel_entr(first, middle).sum() + rel_entr(second, middle).sum()) / 2) / math.log(2)


def smoothed_divergence(first: np.ndarray, second: np.ndarray) -> float:
    """KL divergence in nats of the law of the second counts, int[K], from the first's, SMOOTHING added to each."""
    smoothed = [np.asarray(counts, dtype=np.float64) + SMOOTHING for counts in (first, second)]
    return float(rel_entr(*(counts / counts.sum() for counts in smoothed)).sum())
