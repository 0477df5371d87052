"""Laws over finitely many strings, of which classes count as the same answer; numbers are canonical decimals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.errors import DomainError

SUM_TOLERANCE = 1e-6
"""How far from 1 given probabilities may sum: they are printed with few digits."""
MOST_STRINGS = 100_000
"""Of one law; a smoothed column has one string for each step of its grid."""


@dataclass(frozen=True)
class FiniteLaw:
    """A law over M distinct strings with probabilities above 0 that sum to 1, else DomainError: the class of each, by
    which metrics count, and its number, ascending; ``values`` are None for categories."""

    strings: tuple[str, ...]
    probabilities: tuple[float, ...]
    classes: tuple[str, ...]
    values: tuple[float, ...] | None = None
    scipy_name: ClassVar[str] = ""
    scipy_kwargs: ClassVar[Mapping[str, float]] = {}

    def __post_init__(self):
        if not self.strings:
            raise DomainError("a law needs at least one string")
        if len(self.strings) > MOST_STRINGS:
            raise DomainError(f"{len(self.strings)} strings; a law has at most {MOST_STRINGS}")
        seen = set()
        for text, probability in zip(self.strings, self.probabilities, strict=True):
            if not text or text != text.strip() or len(text.splitlines()) > 1:
                raise DomainError(f"{text!r} is no answer: give one line of text without white space around it")
            if text in seen:
                raise DomainError(f"{text!r} is there twice")
            if not (math.isfinite(probability) and probability > 0):
                raise DomainError(f"the probability of {text!r} must be above 0, got {probability!r}")
            seen.add(text)
        total = math.fsum(self.probabilities)
        if abs(total - 1) > SUM_TOLERANCE:
            raise DomainError(f"the probabilities sum to {total:.6g}, which is {abs(total - 1):.3g} off 1")
        if self.values is not None and list(self.values) != sorted(self.values):
            raise DomainError("numbers must ascend")

    @property
    def integer(self) -> bool:
        """Whether the strings are whole numbers, written without a point."""
        return self.values is not None and not any("." in text for text in self.strings)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, both inside; NaN where strings are categories."""
        return (self.values[0], self.values[-1]) if self.values is not None else (math.nan, math.nan)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.classes))

    @cached_property
    def class_of(self) -> np.ndarray:
        """int64[M], place of each string's class in ``class_names``."""
        place = {name: index for index, name in enumerate(self.class_names)}
        return np.array([place[name] for name in self.classes])

    @cached_property
    def class_probabilities(self) -> np.ndarray:
        """float64[K], sums to 1."""
        mass = np.bincount(self.class_of, weights=self.probabilities)
        return mass / mass.sum()

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Smallest number x with F(x) >= level, float64 of the levels' shape; for laws of numbers."""
        cumulative = np.cumsum(self.probabilities)
        places = np.searchsorted(cumulative / cumulative[-1], levels, side="left")
        return np.array(self.values)[np.minimum(places, len(self.strings) - 1)]


def categorical_law(weights: Mapping[str, float], spellings: Mapping[str, Sequence[str]] | None = None) -> FiniteLaw:
    """A law over categories by the probability of each class, and the spellings of those not written as they are named,
    which share it in equal parts. Raises DomainError."""
    spellings = spellings or {}
    if unknown := [name for name in spellings if name not in weights]:
        raise DomainError(f"spellings of {unknown[0]!r}, which has no probability")
    strings, probabilities, classes = [], [], []
    for name, probability in weights.items():
        texts = list(spellings.get(name, [name]))
        if not texts:
            raise DomainError(f"{name!r} has no spelling")
        strings += texts
        probabilities += [probability / len(texts)] * len(texts)
        classes += [name] * len(texts)
    return FiniteLaw(tuple(strings), tuple(probabilities), tuple(classes))


def numeric_law(indices: np.ndarray, masses: np.ndarray, num_decimals: int) -> FiniteLaw:
    """A law over the numbers k * 10^-num_decimals, int64[M] ascending k; masses are normalised, and 0 left out."""
    kept, mass = indices[masses > 0], masses[masses > 0]
    strings = tuple(FixedPointStrings(kept, num_decimals)) if len(kept) else ()
    probabilities = tuple((mass / mass.sum()).tolist())
    return FiniteLaw(strings, probabilities, strings, tuple((kept / 10**num_decimals).tolist()))


def smoothed_law(values: np.ndarray, weights: np.ndarray, num_decimals: int) -> FiniteLaw:
    """A Gaussian kernel density (SciPy's bandwidth, Scott's rule) of float64[n] weighted numbers, rounded, without what
    lies outside the smallest and largest value. Raises DomainError."""
    from scipy import stats

    scale = 10**num_decimals
    first, last = round(values.min() * scale), round(values.max() * scale)
    if first == last:
        raise DomainError("all numbers are the same, so there is nothing to smooth")
    if last - first >= MOST_STRINGS:
        raise DomainError(
            f"{last - first + 1} numbers with {num_decimals} decimals lie between {values.min():g} and "
            f"{values.max():g}, more than {MOST_STRINGS}; give fewer decimals"
        )
    kernel = stats.gaussian_kde(values, weights=weights)
    deviation = float(np.sqrt(kernel.covariance[0, 0]))
    edges = (np.arange(first, last + 2) - 0.5) / scale
    cumulative = np.zeros(len(edges))
    for value, weight in zip(values, kernel.weights, strict=True):
        cumulative += weight * stats.norm.cdf((edges - value) / deviation)
    return numeric_law(np.arange(first, last + 1), np.diff(cumulative), num_decimals)
