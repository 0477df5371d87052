"""Calibration against cost: which methods are dominated, what one costs at equal calibration, which to choose."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def dominated_by(points: np.ndarray, lower_is_better: Sequence[bool]) -> list[int | None]:
    """For each of float64[N, K] points the place of one that is at least as good in all coordinates and better in one.

    Named is an undominated one, the best in the first coordinate; None where there is none. A NaN takes no part.
    """
    oriented = np.where(np.asarray(lower_is_better, dtype=bool), points, -np.asarray(points, dtype=np.float64))
    # Comparisons with NaN are false.
    at_least = (oriented[:, None] <= oriented[None]).all(axis=-1)
    beats = at_least & (oriented[:, None] < oriented[None]).any(axis=-1)
    dominators = [np.flatnonzero(column & ~beats.any(axis=0)) for column in beats.T]
    return [int(own[np.argmin(oriented[own, 0])]) if len(own) else None for own in dominators]


def mixture_cost(calibrations: np.ndarray, costs: np.ndarray, at: np.ndarray | float) -> np.ndarray:
    """The least cost of a mixture of reference models that is, on average, at least as well calibrated as asked.

    A mixture answers each request with one of two models at random: its cost is their mean, and its W1 at most their
    mean, because W1 is convex in the law. So this is the lower convex envelope of the points, float64[M] or [M, R] by
    reference model and resample; lower is better. Where none is as well calibrated, the cost of the best calibrated.
    NaN where a number is.
    """
    calibrations, costs = np.asarray(calibrations, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    defined = np.isfinite(calibrations).all(axis=0) & np.isfinite(costs).all(axis=0) & np.isfinite(at)
    reached = np.maximum(at, calibrations.min(axis=0))
    best = np.where(calibrations <= reached, costs, math.inf).min(axis=0)
    # A mixture of more than two points is never needed on a line.
    for better, worse in itertools.permutations(range(len(calibrations)), 2):
        between = (calibrations[better] <= reached) & (reached < calibrations[worse])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (reached - calibrations[better]) / (calibrations[worse] - calibrations[better])
            chord = (1 - share) * costs[better] + share * costs[worse]
        best = np.where(between, np.minimum(best, chord), best)
    return np.where(defined, best, math.nan)


@dataclass(frozen=True)
class Choice:
    """Of the candidates, the methods not shown to be worse calibrated than another, the cheapest; "" without a cost.

    ``worse`` has for each other method the split on which it is worse calibrated, the method that it is worse than
    (empty where its own W1 is undefined), and whether a paired test shows it; else intervals do.
    """

    method: str
    candidates: tuple[str, ...]
    worse: Mapping[str, tuple[str, str, bool]]


def choose_method(
    distances: Mapping[str, Mapping[str, tuple[float, float, float]]],
    verdicts: Mapping[str, Mapping[tuple[str, str], str]],
    costs: Mapping[str, float],
    margin: float,
) -> Choice:
    """Of the methods that are not shown to be worse calibrated than another, the one that costs least.

    ``distances`` are W1 with the ends of its 95% interval, by split and method, NaN where undefined; ``verdicts`` what
    paired tests say of the first method against the second, by split. A method is worse where a test with any other
    says so; or where it was not tested against the best of the split and its interval lies wholly above that one's by
    more than ``margin``. One without a finite cost cannot be chosen; of equal costs, the first is.
    """
    methods = list(dict.fromkeys(name for members in distances.values() for name in members))
    worse: dict[str, tuple[str, str, bool]] = {}
    for split, members in distances.items():
        defined = [name for name in methods if name in members and math.isfinite(members[name][0])]
        # Whether the first is shown to be worse than the second, of all tested pairs in both orders.
        tests = {}
        for (own, other), verdict in verdicts.get(split, {}).items():
            tests |= {(own, other): verdict == "worse", (other, own): verdict == "better"}
        for name in methods:
            best = min(defined, key=lambda other: members[other][0], default="")
            if name not in defined:
                worse.setdefault(name, (split, "", False))
            elif beaten := next((other for other in defined if tests.get((name, other))), ""):
                worse.setdefault(name, (split, beaten, True))
            elif (name, best) not in tests and members[name][1] > members[best][2] + margin:
                worse.setdefault(name, (split, best, False))
    candidates = tuple(name for name in methods if name not in worse)
    priced = [name for name in candidates if math.isfinite(costs.get(name, math.nan))]
    return Choice(min(priced, key=costs.__getitem__, default=""), candidates, worse)
