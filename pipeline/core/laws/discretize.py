"""From a law to a finite set of canonical number strings with probabilities.

Source: arXiv:2605.11845, Section 3 ("Task setup") and Appendix B.1.

Laws are handled family by family: the distribution functions of all prompts of a SciPy law
are evaluated in one call over all their grid points.
"""

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
# Grid points per call: temporaries of SciPy's wrappers stay in the processor's cache.
POINTS_PER_CALL = 1 << 16
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


@dataclass(frozen=True)
class _LawBatch:
    """Laws of one SciPy distribution with their parameters as arrays."""

    laws: Sequence[Law]

    @property
    def distribution(self):
        return self.laws[0].distribution

    def parameters(self, sizes: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Parameters float64[S], or repeated to one per grid point."""
        columns = {name: np.array([law.scipy_kwargs[name] for law in self.laws]) for name in self.laws[0].scipy_kwargs}
        return columns if sizes is None else {name: np.repeat(column, sizes) for name, column in columns.items()}

    def bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Support ends and the quantiles that bound the range, float64[S] each."""
        parameters = self.parameters()
        support = np.broadcast_arrays(*self.distribution.support(**parameters), np.empty(len(self.laws)))[:2]
        return *support, *(self.distribution.ppf(level, **parameters) for level in QUANTILE_RANGE)


def _continuous(batch: _LawBatch, num_decimals: int, max_bins: int) -> Iterator[OutputSpace]:
    support_lower, support_upper, low, high = batch.bounds()
    grids = [
        kept_grid(lower, upper, num_decimals, max_bins)
        for lower, upper in zip(
            np.maximum(low, support_lower).tolist(), np.minimum(high, support_upper).tolist(), strict=True
        )
    ]
    sizes = np.array([len(grid) for grid in grids])
    centres = np.concatenate(grids) / 10.0**num_decimals
    starts = np.cumsum(sizes) - sizes
    # The upper boundary of every bin; a grid's last bin has none. Each is needed from the cdf below the
    # median and from the survival function above, which keeps the digits that 1 - cdf loses there.
    inner = np.delete(np.arange(len(centres)), starts + sizes - 1)
    boundaries = (centres[inner] + centres[inner + 1]) / 2.0
    parameters = batch.parameters(sizes - 1)
    upper_half = boundaries > np.repeat(batch.distribution.median(**batch.parameters()), sizes - 1)
    tail = np.empty(len(boundaries))
    for half, function in ((~upper_half, batch.distribution.cdf), (upper_half, batch.distribution.sf)):
        tail[half] = function(boundaries[half], **{name: column[half] for name, column in parameters.items()})
    # Mass below a bin's lower end and above its upper end, each 0 at the ends of the grid.
    below_lower, is_upper = np.zeros(len(centres)), np.zeros(len(centres), dtype=bool)
    above_upper, end_is_upper = np.zeros(len(centres)), np.ones(len(centres), dtype=bool)
    below_lower[inner + 1], is_upper[inner + 1] = tail, upper_half
    above_upper[inner], end_is_upper[inner] = tail, upper_half
    mass = np.where(
        is_upper, below_lower - above_upper, np.where(end_is_upper, 1.0 - above_upper, above_upper) - below_lower
    )
    for law, grid, part in zip(batch.laws, grids, np.split(mass, starts[1:]), strict=True):
        yield _normalised(FixedPointStrings(grid, num_decimals), part, law)


def _integer(batch: _LawBatch, max_bins: int, lower_tail: str) -> Iterator[OutputSpace]:
    support_lower, support_upper, low, high = batch.bounds()
    first = np.where(np.isfinite(support_lower), support_lower, np.floor(low)).astype(np.int64)
    last = np.where(np.isfinite(support_upper), support_upper, np.ceil(high)).astype(np.int64)
    last = np.minimum(last, first + max_bins - 1)
    supports = [np.arange(start, end + 1) for start, end in zip(first, last, strict=True)]
    sizes = last - first + 1
    mass = batch.distribution.pmf(np.concatenate(supports), **batch.parameters(sizes))
    ends = np.cumsum(sizes)
    mass[ends - 1] += batch.distribution.sf(last, **batch.parameters())
    if lower_tail == "first_value":
        mass[ends - sizes] += batch.distribution.cdf(first - 1, **batch.parameters())
    for law, support, part in zip(batch.laws, supports, np.split(mass, ends[:-1]), strict=True):
        yield _normalised(FixedPointStrings(support, 0), part, law)


def _normalised(values: FixedPointStrings, mass: np.ndarray, law: Law) -> OutputSpace:
    total = mass.sum()
    if not (np.isfinite(total) and total > 0 and (mass >= 0).all()):
        raise DomainError(f"{law.scipy_name}({dict(law.scipy_kwargs)}): bin masses are not a distribution")
    return OutputSpace(values, mass / total)


def finite_space(law: FiniteLaw) -> OutputSpace:
    """A finite law as it is."""
    return OutputSpace(law.strings, np.array(law.probabilities))


def discretize_all(
    laws: Sequence[Law | FiniteLaw], *, num_decimals: int, max_bins: int, integer_lower_tail: str = "renormalise"
) -> Iterator[OutputSpace]:
    """Discretise ``laws`` as the paper does, in their order; a finite law is left as it is.

    Continuous laws: centres are multiples of 10^-num_decimals within the 0.001 and 0.999 quantiles (and the
    support), at most ``max_bins`` of them; bins end midway between centres; the mass outside the range goes to the
    edge bins.

    Integer laws: the finite support ends where there are any, else the quantile bounds; at most ``max_bins`` values
    from the lower end; the upper tail goes to the last value. What lies below the first value of a law without a
    lower end (Skellam) is spread over all values with ``integer_lower_tail`` "renormalise", the paper's rule;
    "first_value" assigns it as the upper tail is.

    Consecutive laws of the same SciPy distribution are evaluated together.

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
        while stop < min(len(laws), start + laws_per_call) and laws[stop].scipy_name == laws[start].scipy_name:
            stop += 1
        batch = _LawBatch(laws[start:stop])
        if laws[start].integer:
            yield from _integer(batch, max_bins, integer_lower_tail)
        else:
            yield from _continuous(batch, num_decimals, max_bins)
        start = stop


def discretize(
    law: Law | FiniteLaw, *, num_decimals: int, max_bins: int, integer_lower_tail: str = "renormalise"
) -> OutputSpace:
    """Discretise one law; see ``discretize_all``. Raises DomainError."""
    return next(
        discretize_all([law], num_decimals=num_decimals, max_bins=max_bins, integer_lower_tail=integer_lower_tail)
    )
