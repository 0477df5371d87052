"""The law of X rounded to d decimals: P(k) = F((k + 1/2) 10^-d) - F((k - 1/2) 10^-d) of atoms k * 10^-d. A value that
would round to outside the support counts as the nearest grid point inside."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.core.laws.quantiles import quantile
from pipeline.errors import DomainError

# Of the largest canonical number, so that its index is exact in float64; for the heaviest tail of the paper (Cauchy)
# this cuts a mass of 10^-10.
MAX_DIGITS = 15
# How far SciPy's functions may be off: they are by up to 2 * 10^-9 far outside the families' grids.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class RoundedLaw:
    """A law rounded to ``num_decimals`` decimals (0 for an integer law). Raises DomainError where the support holds no
    multiple of 10^-num_decimals, most needs more than MAX_DIGITS digits, or SciPy's functions do not sum to 1."""

    law: Law
    num_decimals: int

    def __post_init__(self):
        if self.bounds[0] > self.bounds[1]:
            raise DomainError(
                f"no multiple of 10^-{self.num_decimals} lies in the support {self.law.support}; raise num_decimals"
            )
        if np.abs(quantile(self.law, np.array(QUANTILE_RANGE)) * self.scale).max() >= 10.0**MAX_DIGITS:
            raise DomainError(
                f"num_decimals={self.num_decimals} is too fine for {self._name}: "
                f"its numbers have more than {MAX_DIGITS} digits"
            )
        # Masses are taken from cdf below the median's cell and from sf above it, so at its ends the two must sum to 1.
        middle = np.floor(self._median * self.scale + 0.5)
        ends = np.array([middle - 0.5, middle + 0.5]) / self.scale
        totals = self._tail(ends, "cdf", "sf") + self._tail(ends, "sf", "cdf")
        worst = totals[np.argmax(np.abs(totals - 1))]
        if not abs(worst - 1) <= TOLERANCE:
            raise DomainError(f"{self._name}: masses sum to {worst} instead of 1")

    @property
    def _name(self) -> str:
        return f"{self.law.scipy_name}({dict(self.law.scipy_kwargs)})"

    @property
    def scale(self) -> float:
        return 10.0**self.num_decimals

    @cached_property
    def bounds(self) -> tuple[int, int]:
        largest = 10**MAX_DIGITS - 1
        lower, upper = np.clip(np.array(self.law.support) * self.scale, -largest, largest)
        return math.ceil(lower), math.floor(upper)

    @cached_property
    def _median(self) -> float:
        return float(quantile(self.law, np.array([0.5]))[0])

    def _tail(self, ends: np.ndarray, name: str, opposite: str) -> np.ndarray:
        """Mass on one side of the ends of cells, below for the name "cdf" and above for "sf"; NaN where unknown."""
        # SciPy's hypergeometric functions are NaN between integers.
        points = np.floor(ends) if self.law.integer else ends
        distribution, parameters = self.law.distribution, self.law.scipy_kwargs
        with np.errstate(all="ignore"):
            tail = getattr(distribution, name)(points, **parameters)
            unknown = np.isnan(tail)
            if unknown.any():
                # SciPy's inverse Gaussian gives NaN for a tail that underflows, which the other tail shows by being 1.
                others = getattr(distribution, opposite)(points[unknown], **parameters)
                tail[unknown] = np.where(others == 1, 0.0, math.nan)
        return tail

    def masses(self, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """float64[...] P(first <= k < stop) for int64[...] grid indices; 0 for empty ranges. From survival functions
        above the median, so that tails keep their digits. Raises DomainError where SciPy gives a mass that is NaN or
        negative."""
        lowest, highest = self.bounds
        first, stop = np.maximum(first, lowest), np.minimum(stop, highest + 1)
        left = np.where(first == lowest, -math.inf, (first - 0.5) / self.scale)
        right = np.where(stop == highest + 1, math.inf, (stop - 0.5) / self.scale)
        ends = np.stack([left, right])
        upper = ends > self._median
        tails = np.empty(ends.shape)
        tails[~upper] = self._tail(ends[~upper], "cdf", "sf")
        tails[upper] = self._tail(ends[upper], "sf", "cdf")
        # Both ends above the median: sf(left) - sf(right); one on each side: 1 - cdf(left) - sf(right).
        mass = np.where(upper[0], tails[0] - tails[1], np.where(upper[1], 1.0 - tails[1], tails[1]) - tails[0])
        mass = np.where(first < stop, mass, 0.0)
        wrong = ~(mass >= -TOLERANCE)
        if wrong.any():
            raise DomainError(f"{self._name}: a range of values has the mass {mass[wrong][0]}")
        return np.maximum(mass, 0.0)

    def sample(self, rng: np.random.Generator, size: int = 1) -> list[int]:
        scaled = quantile(self.law, rng.random(size)) * self.scale
        nearest = np.floor(np.clip(scaled, *self.bounds) + 0.5).astype(np.int64)
        return np.clip(nearest, *self.bounds).tolist()

    def text(self, index: int) -> str:
        return FixedPointStrings(np.array([index]), self.num_decimals)[0]


def rounded_law(law: Law, num_decimals: int) -> RoundedLaw:
    """The law rounded to ``num_decimals``; an integer law is its own rounding at 0. Raises DomainError."""
    return RoundedLaw(law, 0 if law.integer else num_decimals)
