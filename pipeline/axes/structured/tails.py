"""How well samples meet the law in its tails: errors of quantiles.

The sample quantile at level p is the smallest value below or at which a share p of the sample lies, the i-th
smallest of n with i = ceil(n p) (definition 1 of Hyndman and Fan 1996), as ``pipeline.core.laws.quantiles`` has it for
the law. It exists at every n; beyond 1 / n it is the extreme value and far from the law's quantile even for a
perfect sampler, which is what the floor is for.
"""

import math

import numpy as np

from pipeline.axes.structured.wasserstein import interquantile_width
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

LEVELS = (0.001, 0.01, 0.05, 0.95, 0.99, 0.999)
QUANTILE_ERRORS = tuple(f"quantile_error_at_{level:g}" for level in LEVELS)
"""Metric of the error at each of LEVELS."""


def positions(size: int) -> np.ndarray:
    """int64[len(LEVELS)] places, from 0, of the sample quantiles among ``size`` ordered values."""
    # n p may come out an ulp above the whole number that it is.
    return np.ceil(size * np.array(LEVELS) - 1e-9).astype(np.int64) - 1


def at_levels(ordered: np.ndarray) -> np.ndarray:
    """The sample quantiles at LEVELS of float64[R, n] in ascending order, float64[R, len(LEVELS)]; NaN where n is 0."""
    if not ordered.shape[1]:
        return np.full((len(ordered), len(LEVELS)), math.nan)
    return ordered[:, positions(ordered.shape[1])]


def quantile_errors(law: Law, found: np.ndarray) -> np.ndarray:
    """|sample quantile - target quantile| / (Q95 - Q05), float64[R, len(LEVELS)], from ``at_levels`` of samples."""
    width = interquantile_width(law)
    return np.abs(found - quantile(law, np.array(LEVELS))) / (width if width > 0 else math.nan)
