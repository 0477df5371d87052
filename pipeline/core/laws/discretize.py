"""From a law to a finite set of canonical number strings with probabilities (arXiv:2605.11845, Section 3, App. B.1)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.errors import DomainError

# Quantiles between which the paper's output spaces lie.
QUANTILE_RANGE = (0.001, 0.999)
# Grid points per call of SciPy, so that temporaries stay in the processor's cache.
POINTS_PER_CALL = 1 << 16
# A quantile this close to a grid point, relative to the range's larger end, lies on it: SciPy's ppf is off by a few
# units in the last place.
ROUNDING = 1e-13


@dataclass(frozen=True)
class OutputSpace:
    """M distinct canonical strings, numbers ascending (``FixedPointStrings`` of a SciPy law), and float64[M]
    probabilities."""

    values: Sequence[str]
    probabilities: np.ndarray


def kept_grid(lower: float, upper: float, num_decimals: int, max_bins: int) -> np.ndarray:
    """int64[M] ascending k whose k * 10^-num_decimals are the bin centres in [lower, upper]; of more than ``max_bins``
    those at ``linspace(0, n - 1, max_bins)``, truncated. Raises DomainError without a centre, or where k does not fit
    53 bits."""
    factor = 10.0**num_decimals
    scaled_lower, scaled_upper = lower * factor, upper * factor
    largest = max(abs(scaled_lower), abs(scaled_upper))
    if not largest < 2**53:
        raise DomainError(
            f"num_decimals={num_decimals} is too fine for the range [{lower}, {upper}]: "
            "grid indices would exceed 53 bits"
        )
    first, last = math.ceil(scaled_lower - ROUNDING * largest), math.floor(scaled_upper + ROUNDING * largest)
    if first > last:
        raise DomainError(
            f"no multiple of 10^-{num_decimals} lies in the quantile range [{lower}, {upper}]; raise num_decimals"
        )
    size = last - first + 1
    if size <= max_bins:
        return np.arange(first, last + 1, dtype=np.int64)
    return first + np.linspace(0, size - 1, max_bins).astype(np.int64)


def _continuous(laws: Sequence[Law], parameters: dict[str, np.ndarray], num_decimals: int, max_bins: int) -> Iterator:
    """Grid indices and bin masses of each law."""
    distribution = laws[0].distribution
    lower, upper, low, high = _bounds(laws, parameters)
    ends = zip(np.maximum(low, lower).tolist(), np.minimum(high, upper).tolist(), strict=True)
    grids = [kept_grid(first, last, num_decimals, max_bins) for first, last in ends]
    sizes = np.array([len(grid) for grid in grids])
    centres = np.concatenate(grids) / 10.0**num_decimals
    starts = np.cumsum(sizes) - sizes
    # The upper boundary of every bin but a grid's last: from the cdf below the median, and above it from the survival
    # function, which keeps the digits that 1 - cdf loses.
    inner = np.delete(np.arange(len(centres)), starts + sizes - 1)
    boundaries = (centres[inner] + centres[inner + 1]) / 2.0
    upper_half = boundaries > np.repeat(distribution.median(**parameters), sizes - 1)
    repeated = {name: np.repeat(column, sizes - 1) for name, column in parameters.items()}
    tail = np.empty(len(boundaries))
    for half, function in ((~upper_half, distribution.cdf), (upper_half, distribution.sf)):
        tail[half] = function(boundaries[half], **{name: column[half] for name, column in repeated.items()})
    # Mass below a bin's lower end and above its upper end, each 0 at the ends of the grid.
    below_lower, is_upper = np.zeros(len(centres)), np.zeros(len(centres), dtype=bool)
    above_upper, end_is_upper = np.zeros(len(centres)), np.ones(len(centres), dtype=bool)
    below_lower[inner + 1], is_upper[inner + 1] = tail, upper_half
    above_upper[inner], end_is_upper[inner] = tail, upper_half
    mass = np.where(
        is_upper, below_lower - above_upper, np.where(end_is_upper, 1.0 - above_upper, above_upper) - below_lower
    )
    return zip(grids, np.split(mass, starts[1:]), strict=True)


def _integer(laws: Sequence[Law], parameters: dict[str, np.ndarray], max_bins: int) -> Iterator:
    """Values and their masses of each law."""
    distribution = laws[0].distribution
    lower, upper, low, high = _bounds(laws, parameters)
    first = np.where(np.isfinite(lower), lower, np.floor(low)).astype(np.int64)
    last = np.where(np.isfinite(upper), upper, np.ceil(high)).astype(np.int64)
    last = np.minimum(last, first + max_bins - 1)
    supports = [np.arange(start, end + 1) for start, end in zip(first, last, strict=True)]
    sizes = last - first + 1
    repeated = {name: np.repeat(column, sizes) for name, column in parameters.items()}
    mass = distribution.pmf(np.concatenate(supports), **repeated)
    ends = np.cumsum(sizes)
    mass[ends - 1] += distribution.sf(last, **parameters)
    return zip(supports, np.split(mass, ends[:-1]), strict=True)


def _bounds(laws: Sequence[Law], parameters: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Ends of the supports and the quantiles that bound the range, float64[S] each."""
    distribution = laws[0].distribution
    support = np.broadcast_arrays(*distribution.support(**parameters), np.empty(len(laws)))[:2]
    return *support, *(distribution.ppf(level, **parameters) for level in QUANTILE_RANGE)


def finite_space(law: FiniteLaw) -> OutputSpace:
    return OutputSpace(law.strings, np.array(law.probabilities))


def discretize_all(laws: Sequence[Law | FiniteLaw], *, num_decimals: int, max_bins: int) -> Iterator[OutputSpace]:
    """Discretise ``laws`` as the paper does, in order; a finite law is left as it is.

    Continuous laws: centres are multiples of 10^-num_decimals within the 0.001 and 0.999 quantiles (and the
    support), at most ``max_bins`` of them; bins end midway between centres; the mass outside goes to the edge bins.

    Integer laws: from and to the ends of the support or, where it has none, the quantile bounds; at most ``max_bins``
    values from the lower end; the upper tail goes to the last value. What lies below the first value of a law without
    a lower end (Skellam) is spread over all values.

    Raises DomainError for an empty grid or masses that are not a distribution.
    """
    laws_per_call = max(1, POINTS_PER_CALL // max_bins)
    start = 0
    while start < len(laws):
        stop = start + 1
        if isinstance(laws[start], FiniteLaw):
            yield finite_space(laws[start])
            start = stop
            continue
        # Consecutive laws of the same SciPy distribution are evaluated in one call over all their grid points.
        while stop < min(len(laws), start + laws_per_call) and laws[stop].scipy_name == laws[start].scipy_name:
            stop += 1
        batch, start = laws[start:stop], stop
        parameters = {name: np.array([law.scipy_kwargs[name] for law in batch]) for name in batch[0].scipy_kwargs}
        if batch[0].integer:
            decimals, spaces = 0, _integer(batch, parameters, max_bins)
        else:
            decimals, spaces = num_decimals, _continuous(batch, parameters, num_decimals, max_bins)
        for law, (grid, mass) in zip(batch, spaces, strict=True):
            total = mass.sum()
            if not (np.isfinite(total) and total > 0 and (mass >= 0).all()):
                raise DomainError(f"{law.scipy_name}({dict(law.scipy_kwargs)}): bin masses are not a distribution")
            yield OutputSpace(FixedPointStrings(grid, decimals), mass / total)


def discretize(law: Law | FiniteLaw, **settings) -> OutputSpace:
    return next(discretize_all([law], **settings))
