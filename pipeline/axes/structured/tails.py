"""How well samples meet the law in its tails: errors of quantiles, on the scale of values and of probability.

The sample quantile at level p is the smallest value below or at which a share p of the sample lies, the i-th
smallest of n with i = ceil(n p) (definition 1 of Hyndman and Fan 1996), as ``pipeline.core.laws.quantiles`` has it for
the law. It exists at every n; beyond 1 / n it is the extreme value and far from the law's quantile even for a
perfect sampler, which is what the floor is for.
"""

import math

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

LEVELS = (0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999)


def level_names(prefix: str) -> tuple[str, ...]:
    """Names of the metrics at each of LEVELS."""
    return tuple(f"{prefix}_at_{level:g}" for level in LEVELS)


QUANTILE_ERRORS = level_names("quantile_error")
LEVEL_ERRORS = level_names("quantile_level_error")


def positions(size: int) -> np.ndarray:
    """int64[len(LEVELS)] places, from 0, of the sample quantiles among ``size`` ordered values."""
    # n p may come out an ulp above the whole number that it is.
    return np.ceil(size * np.array(LEVELS) - 1e-9).astype(np.int64) - 1


def quantile_errors(law: Law, ordered: np.ndarray, width: float) -> np.ndarray:
    """|sample quantile - target quantile| / (Q95 - Q05) at LEVELS, float64[R, len(LEVELS)].

    Args:
        law: The target.
        ordered: float64[R, n], samples in ascending order; NaN where n is 0.
        width: Q95 - Q05 of the target; NaN where it is 0.
    """
    if not ordered.shape[1] or not width > 0:
        return np.full((len(ordered), len(LEVELS)), math.nan)
    return np.abs(ordered[:, positions(ordered.shape[1])] - quantile(law, np.array(LEVELS))) / width


def level_errors(ordered: np.ndarray) -> np.ndarray:
    """|u_(i) - p| at LEVELS, float64[R, len(LEVELS)]: how far the sample quantile's own level is from p.

    Finite in expectation for every law, and comparable among families, where values in heavy tails are not.

    Args:
        ordered: float64[R, n], PITs in ascending order; NaN where n is 0.
    """
    if not ordered.shape[1]:
        return np.full((len(ordered), len(LEVELS)), math.nan)
    return np.abs(ordered[:, positions(ordered.shape[1])] - np.array(LEVELS))


def quantile_error_floor(law: Law, ordered: np.ndarray, width: float) -> np.ndarray:
    """``quantile_errors`` of perfect samplers, float64[R, len(LEVELS)].

    Args:
        law: The target.
        ordered: float64[R, n], their PITs in ascending order: only the order statistics needed become values.
        width: Q95 - Q05 of the target.
    """
    if not ordered.shape[1] or not width > 0:
        return np.full((len(ordered), len(LEVELS)), math.nan)
    values = quantile(law, ordered[:, positions(ordered.shape[1])])
    return np.abs(values - quantile(law, np.array(LEVELS))) / width
