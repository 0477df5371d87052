"""From a law to a finite set of canonical number strings with probabilities.

Source: arXiv:2605.11845, Section 3 ("Task setup") and Appendix B.1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.family import Law
from pipeline.errors import DomainError

LOWER_QUANTILE = 0.001
UPPER_QUANTILE = 0.999
INTEGER_LOWER_TAILS = ("renormalise", "first_value")


@dataclass(frozen=True)
class OutputSpace:
    """Canonical strings of one prompt, ascending in value.

    Attributes:
        values: M distinct strings, indexable.
        probabilities: float64[M], non-negative, sums to 1.
    """

    values: Sequence[str]
    probabilities: np.ndarray


def kept_grid(lower: float, upper: float, num_decimals: int, max_bins: int) -> np.ndarray:
    """Integers k, ascending, whose k * 10^-num_decimals are the bin centres in [lower, upper].

    The decimal grid itself is never materialised: when it has more than ``max_bins``
    points, the kept ones are ``linspace(0, n - 1, max_bins)`` truncated to integers.

    Returns:
        int64[M] with M <= max_bins.

    Raises:
        DomainError: No multiple of 10^-num_decimals lies in the range, or its indices
            do not fit 53 bits.
    """
    factor = 10.0**num_decimals
    scaled_lower, scaled_upper = lower * factor, upper * factor
    if not max(abs(scaled_lower), abs(scaled_upper)) < 2**53:
        raise DomainError(
            f"num_decimals={num_decimals} is too fine for the range [{lower}, {upper}]: "
            "grid indices would exceed 53 bits"
        )
    first, last = math.ceil(scaled_lower), math.floor(scaled_upper)
    size = last - first + 1
    if size < 1:
        raise DomainError(
            f"no multiple of 10^-{num_decimals} lies in the quantile range [{lower}, {upper}]; raise num_decimals"
        )
    if size <= max_bins:
        return np.arange(first, last + 1, dtype=np.int64)
    return first + np.linspace(0, size - 1, max_bins).astype(np.int64)


def fixed_point(indices: np.ndarray, num_decimals: int) -> list[str]:
    """Fixed-point strings of k * 10^-num_decimals for int64 ``indices`` k.

    The strings come from integers, so a zero is always "0.00000", never "-0.00000".
    """
    factor = 10**num_decimals
    strings = []
    for index in indices.tolist():
        whole, fraction = divmod(abs(index), factor)
        text = f"{whole}.{fraction:0{num_decimals}d}" if num_decimals else str(whole)
        strings.append("-" + text if index < 0 else text)
    return strings


def _continuous(law: Law, num_decimals: int, max_bins: int) -> OutputSpace:
    frozen = law.freeze()
    support_lower, support_upper = law.support
    lower = max(float(frozen.ppf(LOWER_QUANTILE)), support_lower)
    upper = min(float(frozen.ppf(UPPER_QUANTILE)), support_upper)
    indices = kept_grid(lower, upper, num_decimals, max_bins)
    centres = indices / 10.0**num_decimals
    midpoints = (centres[1:] + centres[:-1]) / 2.0
    below = np.concatenate([[0.0], frozen.cdf(midpoints), [1.0]])
    above = np.concatenate([[1.0], frozen.sf(midpoints), [0.0]])
    # A difference of survival functions keeps the digits that 1 - cdf loses in the upper tail.
    mass = np.where(below[1:] <= 0.5, np.diff(below), -np.diff(above))
    return _normalised(fixed_point(indices, num_decimals), mass, law)


def _integer(law: Law, max_bins: int, lower_tail: str) -> OutputSpace:
    frozen = law.freeze()
    support_lower, support_upper = law.support
    first = support_lower if math.isfinite(support_lower) else math.floor(frozen.ppf(LOWER_QUANTILE))
    last = support_upper if math.isfinite(support_upper) else math.ceil(frozen.ppf(UPPER_QUANTILE))
    first, last = int(first), min(int(last), int(first) + max_bins - 1)
    support = np.arange(first, last + 1)
    mass = frozen.pmf(support)
    mass[-1] += frozen.sf(last)
    if lower_tail == "first_value":
        mass[0] += frozen.cdf(first - 1)
    return _normalised([str(value) for value in support.tolist()], mass, law)


def _normalised(values: list[str], mass: np.ndarray, law: Law) -> OutputSpace:
    total = mass.sum()
    if not (np.isfinite(total) and total > 0 and (mass >= 0).all()):
        raise DomainError(f"{law.scipy_name}({dict(law.scipy_kwargs)}): bin masses are not a distribution")
    return OutputSpace(values, mass / total)


def discretize(law: Law, *, num_decimals: int, max_bins: int, integer_lower_tail: str = "renormalise") -> OutputSpace:
    """Discretise ``law`` as the paper does.

    Continuous laws: centres are multiples of 10^-num_decimals within the 0.001 and 0.999
    quantiles (and the support), at most ``max_bins`` of them; bins end midway between
    centres; the mass outside the range goes to the edge bins.

    Integer laws: the finite support ends where there are any, else the quantile bounds;
    at most ``max_bins`` values from the lower end; the upper tail goes to the last value.

    Args:
        law: The target law.
        num_decimals: Decimals of the canonical strings; integer laws print none.
        max_bins: Largest size of the output space.
        integer_lower_tail: What becomes of the mass below the first value of an integer
            law whose support has no lower end (Skellam). "renormalise" spreads it over
            all values, the paper's rule; "first_value" assigns it as the upper tail is.

    Raises:
        DomainError: An empty grid or masses that are not a distribution.
    """
    if law.integer:
        return _integer(law, max_bins, integer_lower_tail)
    return _continuous(law, num_decimals, max_bins)
