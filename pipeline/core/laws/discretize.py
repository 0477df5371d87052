"""From a law to a finite set of canonical number strings with probabilities.

Source: arXiv:2605.11845, Section 3 ("Task setup") and Appendix B.1.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.errors import DomainError

# Quantiles between which the paper's output spaces lie.
QUANTILE_RANGE = (0.001, 0.999)
# A quantile this close to a grid point, relative to the range's larger end, lies on it: SciPy's ppf and the product
# with 10^num_decimals are off by a few units in the last place (2.2e-16), in either direction.
ROUNDING = 1e-13


@dataclass(frozen=True)
class OutputSpace:
    """Canonical strings of one prompt, M distinct ones (``FixedPointStrings`` of a SciPy law), numbers ascending, with
    float64[M] probabilities that sum to 1.
    """

    values: Sequence[str]
    probabilities: np.ndarray


def kept_grid(lower: float, upper: float, num_decimals: int, max_bins: int) -> np.ndarray:
    """Integers k, ascending, whose k * 10^-num_decimals are the bin centres in [lower, upper]; int64[M], M <= max_bins.

    The decimal grid itself is never materialised: when it has more than ``max_bins`` points, the kept ones are
    ``linspace(0, n - 1, max_bins)`` truncated to integers.

    An end that is a grid point up to rounding is one: 10^-3 is the 0.001 quantile of the uniform law on [0, 1], and
    is kept although its float64 may come out above or below, by processor and version of SciPy.

    Raises DomainError where no multiple lies in the range, or indices do not fit 53 bits.
    """
    factor = 10.0**num_decimals
    scaled_lower, scaled_upper = lower * factor, upper * factor
    if not max(abs(scaled_lower), abs(scaled_upper)) < 2**53:
        raise DomainError(
            f"num_decimals={num_decimals} is too fine for the range [{lower}, {upper}]: "
            "grid indices would exceed 53 bits"
        )
    rounding = ROUNDING * max(abs(scaled_lower), abs(scaled_upper))
    first, last = math.ceil(scaled_lower - rounding), math.floor(scaled_upper + rounding)
    size = last - first + 1
    if size < 1:
        raise DomainError(
            f"no multiple of 10^-{num_decimals} lies in the quantile range [{lower}, {upper}]; raise num_decimals"
        )
    if size <= max_bins:
        return np.arange(first, last + 1, dtype=np.int64)
    return first + np.linspace(0, size - 1, max_bins).astype(np.int64)


def _continuous(law: Law, num_decimals: int, max_bins: int) -> tuple[FixedPointStrings, np.ndarray]:
    distribution, parameters = law.distribution, law.scipy_kwargs
    low, high = (float(distribution.ppf(level, **parameters)) for level in QUANTILE_RANGE)
    lower, upper = law.support
    grid = kept_grid(max(low, lower), min(high, upper), num_decimals, max_bins)
    centres = grid / 10.0**num_decimals
    ends = (centres[:-1] + centres[1:]) / 2.0
    # Mass comes from the cdf below the median and from the survival function above, which keeps the digits that
    # 1 - cdf loses there.
    half = int(np.searchsorted(ends, distribution.median(**parameters), side="right"))
    below = np.concatenate([[0.0], distribution.cdf(ends[:half], **parameters)])
    above = np.concatenate([distribution.sf(ends[half:], **parameters), [0.0]])
    mass = np.concatenate([np.diff(below), [1.0 - above[0] - below[-1]], -np.diff(above)])
    return FixedPointStrings(grid, num_decimals), mass


def _integer(law: Law, max_bins: int, lower_tail: str) -> tuple[FixedPointStrings, np.ndarray]:
    distribution, parameters = law.distribution, law.scipy_kwargs
    low, high = (float(distribution.ppf(level, **parameters)) for level in QUANTILE_RANGE)
    lower, upper = law.support
    first = int(lower if math.isfinite(lower) else math.floor(low))
    last = min(int(upper if math.isfinite(upper) else math.ceil(high)), first + max_bins - 1)
    grid = np.arange(first, last + 1)
    mass = distribution.pmf(grid, **parameters)
    mass[-1] += distribution.sf(last, **parameters)
    if lower_tail == "first_value":
        mass[0] += distribution.cdf(first - 1, **parameters)
    return FixedPointStrings(grid, 0), mass


def finite_space(law: FiniteLaw) -> OutputSpace:
    """A finite law as it is."""
    return OutputSpace(law.strings, np.array(law.probabilities))


def discretize(
    law: Law | FiniteLaw, *, num_decimals: int, max_bins: int, integer_lower_tail: str = "renormalise"
) -> OutputSpace:
    """Discretise a law as the paper does; a finite law is left as it is.

    Continuous laws: centres are multiples of 10^-num_decimals within the 0.001 and 0.999 quantiles (and the
    support), at most ``max_bins`` of them; bins end midway between centres; the mass outside the range goes to the
    edge bins.

    Integer laws: the finite support ends where there are any, else the quantile bounds; at most ``max_bins`` values
    from the lower end; the upper tail goes to the last value. What lies below the first value of a law without a
    lower end (Skellam) is spread over all values with ``integer_lower_tail`` "renormalise", the paper's rule;
    "first_value" assigns it as the upper tail is.

    Raises DomainError for an empty grid or masses that are not a distribution.
    """
    if isinstance(law, FiniteLaw):
        return finite_space(law)
    if law.integer:
        values, mass = _integer(law, max_bins, integer_lower_tail)
    else:
        values, mass = _continuous(law, num_decimals, max_bins)
    total = mass.sum()
    if not (np.isfinite(total) and total > 0 and (mass >= 0).all()):
        raise DomainError(f"{law.scipy_name}({dict(law.scipy_kwargs)}): bin masses are not a distribution")
    return OutputSpace(values, mass / total)


def discretize_all(laws: Iterable[Law | FiniteLaw], **settings: int | str) -> Iterator[OutputSpace]:
    """The laws discretised in their order, with the settings of ``discretize``."""
    return (discretize(law, **settings) for law in laws)
