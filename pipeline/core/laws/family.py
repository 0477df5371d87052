"""The parts of a distribution family; the 30 families themselves are in ``pipeline.core.laws.families``."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import DomainError

if TYPE_CHECKING:
    from scipy import stats

Parameters = Mapping[str, float]
FRESH_DECIMALS = (1, 2, 3, 16)
"""Digits behind the point as people write them, and all of them, as the grids have."""


@dataclass(frozen=True)
class Axis:
    """One axis of a parameter grid: values in order, spaced "linear", "log", "listed" or "count" (whole numbers)."""

    name: str
    values: tuple[float, ...]
    spacing: str

    def midpoints(self) -> tuple[float, ...]:
        """Halfway between neighbours on the axis' own scale; of counts, the whole numbers between them."""
        middle = {"log": lambda a, b: math.sqrt(a * b), "count": lambda a, b: (a + b) // 2}
        between = (middle.get(self.spacing, lambda a, b: (a + b) / 2)(a, b) for a, b in pairwise(self.values))
        return tuple(value for value in between if value not in self.values)

    def draw(self, rng: np.random.Generator, num_decimals: int) -> float:
        """A value between the ends, uniform (of "log" in its logarithm), with ``num_decimals`` digits at most."""
        lower, upper = self.values[0], self.values[-1]
        if self.spacing == "count":
            return float(rng.integers(int(lower), int(upper), endpoint=True))
        if self.spacing == "log":
            value = math.exp(rng.uniform(math.log(lower), math.log(upper)))
        else:
            value = float(rng.uniform(lower, upper))
        return min(max(round(value, num_decimals), lower), upper)


def linear(name: str, lower: float, upper: float, size: int) -> Axis:
    return Axis(name, tuple(np.linspace(lower, upper, size).tolist()), "linear")


def log(name: str, lower: float, upper: float, size: int) -> Axis:
    # ``numpy.geomspace``, whose last digits, printed in the prompt, differ between processors.
    exponents = np.linspace(math.log10(lower), math.log10(upper), size).tolist()
    inner = [math.pow(10.0, exponent) for exponent in exponents[1:-1]]
    return Axis(name, (float(lower), *inner, float(upper)), "log")


def listed(name: str, *values: float) -> Axis:
    return Axis(name, tuple(map(float, values)), "listed")


def counts(name: str, *values: int) -> Axis:
    return Axis(name, tuple(map(float, values)), "count")


@dataclass(frozen=True)
class Parameter:
    """A prompt parameter and its domain: ``lower < value < upper``, ends included as flagged."""

    name: str
    lower: float = -math.inf
    upper: float = math.inf
    lower_inclusive: bool = False
    upper_inclusive: bool = False
    integer: bool = False

    def check(self, family: str, value: float) -> None:
        """Raise DomainError unless ``value`` is a finite number inside the domain."""
        above = value >= self.lower if self.lower_inclusive else value > self.lower
        below = value <= self.upper if self.upper_inclusive else value < self.upper
        if not (math.isfinite(value) and above and below) or (self.integer and value != int(value)):
            kind = "a whole number" if self.integer else "a number"
            left, right = "[" if self.lower_inclusive else "(", "]" if self.upper_inclusive else ")"
            domain = f"{kind} in {left}{self.lower}, {self.upper}{right}"
            raise DomainError(f"{family}: {self.name}={value!r} is outside its domain, {domain}")


real = Parameter
positive = partial(Parameter, lower=0.0)
probability = partial(Parameter, lower=0.0, upper=1.0, upper_inclusive=True)
count = partial(Parameter, lower=1.0, lower_inclusive=True, integer=True)


@dataclass(frozen=True)
class Law:
    """A SciPy distribution by name and keyword arguments (both JSON-serialisable)."""

    scipy_name: str
    scipy_kwargs: Mapping[str, float]

    @property
    def distribution(self) -> "stats.rv_continuous | stats.rv_discrete":
        """Its methods take ``**scipy_kwargs``; freezing one takes SciPy about 1 ms."""
        from scipy import stats

        return getattr(stats, self.scipy_name)

    def freeze(self):
        return self.distribution(**self.scipy_kwargs)

    @property
    def integer(self) -> bool:
        from scipy import stats

        return isinstance(self.distribution, stats.rv_discrete)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible value (possibly infinite), both counted as inside."""
        lower, upper = self.distribution.support(**self.scipy_kwargs)
        return float(lower), float(upper)


@dataclass(frozen=True)
class Family:
    """One distribution family, of difficulty tier "I", "II" or "III" (Table 5), with its parameters in prompt order.

    ``law(*parameters)`` gives the SciPy law: the one place that converts the prompt's parameterisation. ``train_grid``
    is empty for a held-out family; ``selected`` are the paper's test points, in grid coordinates, which ``from_grid``
    maps to prompt parameters. Values of the parameters ``ordering`` must not decrease (ends strictly apart).
    """

    family_id: str
    display_name: str
    tier: str
    parameters: tuple[Parameter, ...]
    law: Callable[..., Law]
    test_grid: tuple[Axis, ...]
    selected: tuple[Parameters, ...]
    train_grid: tuple[Axis, ...] = ()
    from_grid: Callable[[Parameters], Parameters] = dict
    ordering: tuple[str, ...] = ()

    @property
    def seen(self) -> bool:
        """Whether it is trained on (24 of 30)."""
        return bool(self.train_grid)

    def check(self, parameters: Parameters) -> None:
        expected = [parameter.name for parameter in self.parameters]
        if sorted(parameters) != sorted(expected):
            raise DomainError(f"{self.family_id}: takes the parameters {expected}, got {sorted(parameters)}")
        for parameter in self.parameters:
            parameter.check(self.family_id, parameters[parameter.name])
        values = [parameters[name] for name in self.ordering]
        if values and not (values == sorted(values) and values[0] < values[-1]):
            rule = f"{' <= '.join(self.ordering)} must hold with {self.ordering[0]} < {self.ordering[-1]}"
            raise DomainError(f"{self.family_id}: {rule}, got {values}")

    def law_at(self, parameters: Parameters) -> Law:
        """Raises DomainError for other names than the family's, or values outside their domains."""
        self.check(parameters)
        law = self.law(*(parameters[parameter.name] for parameter in self.parameters))
        if any(math.isnan(end) for end in law.support):
            raise DomainError(f"{self.family_id}: SciPy rejects {dict(parameters)}")
        return law

    def grid_points(self, split: str, selection: str = "full") -> Iterator[dict[str, float]]:
        """Prompt parameters of "train" or "test" in grid order; of "test" the paper's points ("selected"), or of a seen
        family three that lie between the points of its training grid ("interpolated")."""
        if split == "train" or selection == "full":
            axes = self.train_grid if split == "train" else self.test_grid
            names = [axis.name for axis in axes]
            points = [dict(zip(names, values, strict=True)) for values in product(*(a.values for a in axes)) if values]
        else:
            points = self.selected if selection == "selected" else self._interpolated()
        for point in points:
            yield {name: float(value) for name, value in self.from_grid(point).items()}

    def fresh_point(self, rng: np.random.Generator) -> dict[str, float]:
        """Prompt parameters drawn inside the ranges of the training grid, with one of FRESH_DECIMALS."""
        num_decimals = int(rng.choice(FRESH_DECIMALS))
        point = {axis.name: axis.draw(rng, num_decimals) for axis in self.train_grid}
        # What follows from several values, as an upper end from a width, is not rounded yet.
        return {
            name: float(value) if name in point else round(float(value), num_decimals)
            for name, value in self.from_grid(point).items()
        }

    def _interpolated(self) -> list[dict[str, float]]:
        """An axis' lowest, middle and highest midpoint, in turns."""
        between = [(axis.name, axis.midpoints()) for axis in self.train_grid]
        turns = ((0.0, 0.5, 1.0), (0.5, 1.0, 0.0), (1.0, 0.0, 0.5)) if between else ()
        return [
            {name: axis[round(place * (len(axis) - 1))] for place, (name, axis) in zip(turn, between, strict=False)}
            for turn in turns
        ]
