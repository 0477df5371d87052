"""Calibration against what it costs: which methods are dominated, what one costs at equal calibration, which to choose.

A straight line between two measured models is no interpolation of theirs. It is what anyone has without training
anything: a model that answers each request with one of the two, drawn at random. Its cost is that mean exactly, and
its W1 at most that mean, because W1 is convex in the law of the answers. So the lower envelope of such lines is what a
method has to beat, however few points it is drawn through.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def dominated_by(points: np.ndarray, lower_is_better: Sequence[bool]) -> list[int | None]:
    """For each of N points the place of one that dominates it: at least as good in every coordinate and better in one.

    Of float64[N, K] points. Named is an undominated one, the best in the first coordinate; None where there is none.
    Points that agree in every coordinate do not dominate each other, and a NaN takes no part.
    """
    oriented = np.where(np.asarray(lower_is_better, dtype=bool), points, -np.asarray(points, dtype=np.float64))
    # Comparisons with NaN are false.
    at_least = (oriented[:, None] <= oriented[None]).all(axis=-1)
    beats = at_least & (oriented[:, None] < oriented[None]).any(axis=-1)
    free = ~beats.any(axis=0)
    found: list[int | None] = []
    for place in range(len(oriented)):
        dominators = np.flatnonzero(beats[:, place] & free)
        found.append(int(dominators[np.argmin(oriented[dominators, 0])]) if len(dominators) else None)
    return found


def mixture_cost(calibrations: np.ndarray, costs: np.ndarray, at: np.ndarray | float) -> np.ndarray:
    """The least cost of a mixture of reference models that is, on average, at least as well calibrated as asked.

    The lower convex envelope of the points, float64[M] or [M, R] by reference model and resample; lower is better.
    Where none of them is as well calibrated as asked, the cost of the best calibrated: a method that is better
    calibrated than all of them is then charged for that, too. NaN where a number is.
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
    """Which method to choose for one model: of the candidates, those not shown to be worse calibrated than another, the
    one that costs least; empty where none has a cost.

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

    A method is shown to be worse where, on a split, a paired test with any other method says so; or where it was not
    tested against the best of the split and its interval lies wholly above that one's, by more than the margin.
    Methods of the same cost are chosen in the given order; one without a finite cost cannot be chosen.

    Args:
        distances: W1 with the ends of its 95% interval, by split and method; NaN where undefined.
        verdicts: What paired tests of W1 say of the first method against the second, by split.
        costs: Cost by method.
        margin: Smallest difference of W1 that matters.
    """
    methods = list(dict.fromkeys(name for members in distances.values() for name in members))
    worse: dict[str, tuple[str, str, bool]] = {}
    for split, members in distances.items():
        undefined = (math.nan,) * 3
        rows = {name: members.get(name, undefined) for name in methods}
        defined = [name for name in methods if math.isfinite(rows[name][0])]
        # Whether the first is shown to be worse than the second, of all tested pairs in both orders.
        tests = {
            pair: verdict == word
            for (own, other), verdict in verdicts.get(split, {}).items()
            for pair, word in (((own, other), "worse"), ((other, own), "better"))
        }
        for name in methods:
            best = min(defined, key=lambda other: rows[other][0], default="")
            if name not in defined:
                worse.setdefault(name, (split, "", False))
            elif beaten := next((other for other in defined if tests.get((name, other))), ""):
                worse.setdefault(name, (split, beaten, True))
            elif (name, best) not in tests and rows[name][1] > rows[best][2] + margin:
                worse.setdefault(name, (split, best, False))
    candidates = tuple(name for name in methods if name not in worse)
    priced = [name for name in candidates if math.isfinite(costs.get(name, math.nan))]
    return Choice(min(priced, key=costs.__getitem__, default=""), candidates, worse)
