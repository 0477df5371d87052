"""Probability integral transforms (PIT) of samples: u = F(x), uniform where they come from the law. Every family has
the same unit, and distances are finite for laws without a mean, such as Cauchy's."""

import math
import re

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.prompts.number_answers import strip_reasoning

LARGEST_CELL = 0.05
"""Most of the law's probability over which a rounded answer is spread."""
_LITERAL = re.compile(r"[+-]?[0-9]*(?:\.(?P<decimals>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+))?")


def printed_decimals(text: str) -> float:
    """Decimals, within -300 and 300, of a valid answer: 2 for "3.14", 0 for "3" and "3.", 4 for "1.5e-3", -2 for
    "3e2"."""
    literal = _LITERAL.fullmatch(strip_reasoning(text))
    # As floats: an exponent of any length is legal, and Python limits the digits of an integer.
    decimals = len(literal["decimals"] or "") - float(literal["exponent"] or 0)
    return min(max(decimals, -300.0), 300.0)


def randomised_pit(law: Law, values: np.ndarray, decimals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """PITs of float64[n] values in the support, one uniform draw each from what the law leaves open about the rank.

    Integer laws: u = F(x - 1) + v (F(x) - F(x - 1)), v uniform (Brockwell 2007; Czado, Gneiting and Held 2009).
    Continuous laws: all values that print alike, [x - h, x + h] with h = 10^-d / 2, but at most LARGEST_CELL / 2 to
    either side: a handful of round numbers must not pass for rounded.
    """
    distribution, kwargs = law.distribution, law.scipy_kwargs
    # SciPy has some laws overflow to infinity on the way to a distribution function of 0 or 1.
    with np.errstate(over="ignore"):
        if law.integer:
            low, high = distribution.cdf(np.stack([values - 1, values]), **kwargs)
        else:
            half = 0.5 * 10.0**-decimals
            below, middle, above = distribution.cdf(np.stack([values - half, values, values + half]), **kwargs)
            low = np.maximum(below, middle - LARGEST_CELL / 2)
            high = np.minimum(above, middle + LARGEST_CELL / 2)
    return np.clip(low + rng.random(len(values)) * (high - low), 0, 1)


def pit_wasserstein_1(ordered: np.ndarray) -> np.ndarray:
    """Eq. 5 against the uniform law, float64[R] in [0, 1/2], of float64[R, n] ascending PITs; NaN where n is 0."""
    size = ordered.shape[1]
    if not size:
        return np.full(len(ordered), math.nan)
    return np.abs(ordered - (np.arange(size) + 0.5) / size).mean(axis=1)


def count_invalid_as_one(distance: float, valid_rate: float) -> float:
    """A PIT distance over all answers: the invalid ones count 1, more than a valid one can have; NaN without any
    answer."""
    return 1.0 if valid_rate == 0 else valid_rate * distance + 1 - valid_rate
