"""Quantiles of a law, for integer laws from a table of the distribution function."""

import math

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw


def quantile(law: Law | FiniteLaw, levels: np.ndarray) -> np.ndarray:
    """F^-1(level) = smallest value x with F(x) >= level, as ``scipy.stats`` defines ``ppf``; levels inside (0, 1).

    Integer laws are inverted by a search in a table of F: SciPy's generic search is a
    Python loop per level and fails to terminate on some degenerate laws.
    """
    levels = np.asarray(levels, dtype=np.float64)
    if isinstance(law, FiniteLaw):
        return law.quantile(levels)
    distribution, parameters = law.distribution, law.scipy_kwargs
    if not law.integer:
        return distribution.ppf(levels, **parameters)
    if levels.size == 0:
        return levels.copy()
    lower, upper = law.support
    # SciPy divides by zero in the hypergeometric's kurtosis, which is not used here.
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, variance = (float(moment) for moment in distribution.stats(**parameters, moments="mv"))
    deviation = math.sqrt(variance)
    width = 8
    while True:
        first = int(max(lower, math.floor(mean - width * deviation - 1)))
        last = int(min(upper, math.ceil(mean + width * deviation + 1)))
        table = distribution.cdf(np.arange(first, last + 1), **parameters)
        starts_below = first == lower or table[0] < levels.min()
        if starts_below and (last == upper or table[-1] >= levels.max()):
            break
        width *= 2
    # SciPy's cdf may stop an ulp short of 1 at the upper end of a finite support.
    return (first + np.minimum(np.searchsorted(table, levels, side="left"), len(table) - 1)).astype(np.float64)


def interquantile_width(law: Law | FiniteLaw) -> float:
    """Q95 - Q05 of a law, the paper's scale for W1."""
    low, high = quantile(law, np.array([0.05, 0.95]))
    return float(high - low)
