"""Quantiles of a law."""

import math

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw


def quantile(law: Law | FiniteLaw, levels: np.ndarray) -> np.ndarray:
    """Smallest x with F(x) >= level, inside (0, 1). Of integer laws from a table of F: SciPy's ``ppf`` is a Python loop
    per level, and does not end on some degenerate laws."""
    levels = np.asarray(levels, dtype=np.float64)
    if isinstance(law, FiniteLaw):
        return law.quantile(levels)
    distribution, parameters = law.distribution, law.scipy_kwargs
    if not law.integer:
        return distribution.ppf(levels, **parameters)
    lower, upper = law.support
    # SciPy divides by zero in the hypergeometric's kurtosis, which is not used here.
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, variance = (float(moment) for moment in distribution.stats(**parameters, moments="mv"))
    if not math.isfinite(mean + variance):  # as of Zipf's law; its table grows from its lower end
        mean, variance = max(lower, -1.0), 1.0
    reach = 8 * math.sqrt(variance)
    while True:
        first, last = int(max(lower, math.floor(mean - reach - 1))), int(min(upper, math.ceil(mean + reach + 1)))
        table = distribution.cdf(np.arange(first, last + 1), **parameters)
        if (first == lower or table[0] < levels.min()) and (last == upper or table[-1] >= levels.max()):
            break
        reach *= 2
    # SciPy's cdf may stop an ulp short of 1 at the upper end of a finite support.
    return (first + np.minimum(np.searchsorted(table, levels, side="left"), len(table) - 1)).astype(np.float64)


def interquantile_width(law: Law | FiniteLaw) -> float:
    """Q95 - Q05 of a law, the paper's scale for W1."""
    low, high = quantile(law, np.array([0.05, 0.95]))
    return float(high - low)
