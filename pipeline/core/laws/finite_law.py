"""Laws over finitely many strings, with classes of strings that count as the same answer.

Numbers are strings, too: canonical decimals with as many digits behind the point as the law has.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.errors import DomainError

SUM_TOLERANCE = 1e-6
"""How far from 1 given probabilities may sum: they are printed with few digits."""
MOST_STRINGS = 100_000
"""Of one law; a smoothed column has one string for each step of its grid."""


@dataclass(frozen=True)
class FiniteLaw:
    """A law over M distinct strings, numbers ascending in value; its probabilities are above 0 and sum to 1.

    Attributes:
        classes: Class of each string, by which metrics count; the string itself where it is its only spelling.
        values: The number of each string; None where strings are categories.

    Raises:
        DomainError: Nothing, a string that is empty, twice there or in white space, or probabilities that are none.
    """

    strings: tuple[str, ...]
    probabilities: tuple[float, ...]
    classes: tuple[str, ...]
    values: tuple[float, ...] | None = None

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
    def scipy_name(self) -> str:
        """Empty, as are ``scipy_kwargs``: the law is not one of SciPy's."""
        return ""

    @property
    def scipy_kwargs(self) -> dict[str, float]:
        """Nothing."""
        return {}

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
        """K distinct classes in the order of their first strings."""
        return tuple(dict.fromkeys(self.classes))

    @cached_property
    def class_of(self) -> np.ndarray:
        """int64[M], place of each string's class in ``class_names``."""
        place = {name: index for index, name in enumerate(self.class_names)}
        return np.array([place[name] for name in self.classes])

    @cached_property
    def class_probabilities(self) -> np.ndarray:
        """float64[K], probability of each class; sums to 1."""
        mass = np.bincount(self.class_of, weights=self.probabilities)
        return mass / mass.sum()

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Smallest number x with F(x) >= level, float64 of the levels' shape; for laws of numbers."""
        cumulative = np.cumsum(self.probabilities)
        places = np.searchsorted(cumulative / cumulative[-1], levels, side="left")
        return np.array(self.values)[np.minimum(places, len(self.strings) - 1)]


def categorical_law(
    weights: Mapping[str, float], spellings: Mapping[str, Sequence[str]] | None = None, *, split: bool = True
) -> FiniteLaw:
    """A law over categories by their weights.

    Args:
        weights: Probability of each class.
        spellings: Strings of the classes that are not written as they are named, the first one first.
        split: Whether spellings share the class's probability in equal parts; else the first has all of it, and the
            others are not answers.

    Raises:
        DomainError: See ``FiniteLaw``; or spellings of no class, or none of a class.
    """
    spellings = spellings or {}
    if unknown := [name for name in spellings if name not in weights]:
        raise DomainError(f"spellings of {unknown[0]!r}, which has no probability")
    strings, probabilities, classes = [], [], []
    for name, probability in weights.items():
        texts = list(spellings.get(name, [name]))
        if not texts:
            raise DomainError(f"{name!r} has no spelling")
        for text in texts if split else texts[:1]:
            strings.append(text)
            probabilities.append(probability / len(texts) if split else probability)
            classes.append(name)
    return FiniteLaw(tuple(strings), tuple(probabilities), tuple(classes))


def numeric_law(indices: np.ndarray, masses: np.ndarray, num_decimals: int) -> FiniteLaw:
    """A law over the numbers k * 10^-num_decimals for int64[M] ascending indices k.

    The masses are normalised here, and numbers of mass 0 left out. Raises DomainError as ``FiniteLaw``.
    """
    kept = np.asarray(indices)[np.asarray(masses) > 0]
    mass = np.asarray(masses, dtype=np.float64)[np.asarray(masses) > 0]
    strings = tuple(FixedPointStrings(kept, num_decimals)) if len(kept) else ()
    probabilities = tuple((mass / mass.sum()).tolist())
    return FiniteLaw(strings, probabilities, strings, tuple((kept / 10**num_decimals).tolist()))


def smoothed_law(values: np.ndarray, weights: np.ndarray, num_decimals: int) -> FiniteLaw:
    """A Gaussian kernel density of float64[n] weighted numbers, rounded to their decimals and kept within their range.

    The bandwidth is SciPy's (Scott's rule). What the kernels put outside the smallest and largest value is left out,
    so that a column of positive numbers stays positive.

    Raises DomainError where all values are the same, or their range has more than MOST_STRINGS steps.
    """
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
