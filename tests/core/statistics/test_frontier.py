"""Dominance and mixtures against brute force; the choice of a method by its rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linprog

from pipeline.core.statistics.frontier import Choice, choose_method, dominated_by, mixture_cost

# Few different values, so that ties are frequent.
COORDINATES = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan])
POINTS = st.integers(1, 7).flatmap(lambda n: arrays.arrays(np.float64, (n, 3), elements=COORDINATES))
DIRECTIONS = st.lists(st.booleans(), min_size=3, max_size=3)


def dominates(first, second, lower_is_better):
    """The definition, coordinate by coordinate."""
    if any(math.isnan(value) for value in (*first, *second)):
        return False
    gains = [b - a if lower else a - b for a, b, lower in zip(first, second, lower_is_better, strict=True)]
    return min(gains) >= 0 and max(gains) > 0


@settings(deadline=None, derandomize=True)
@given(POINTS, DIRECTIONS)
def test_dominated_points_are_those_of_the_definition(points, lower_is_better):
    found = dominated_by(points, lower_is_better)
    for place, dominator in enumerate(found):
        dominators = [i for i in range(len(points)) if dominates(points[i], points[place], lower_is_better)]
        assert (dominator is None) == (not dominators)
        if dominator is not None:
            assert dominator in dominators and found[dominator] is None
            # Of several that are not dominated, the best in the first coordinate is named.
            sign = 1 if lower_is_better[0] else -1
            free = [sign * points[i][0] for i in dominators if found[i] is None]
            assert sign * points[dominator][0] == min(free)
    # What counts is the order of values alone.
    assert dominated_by(points * 2 + 1, lower_is_better) == found
    assert dominated_by(-points, [not lower for lower in lower_is_better]) == found


def least_mixture(calibrations, costs, at):
    """The definition as a linear programme over the shares of a mixture."""
    shares = linprog(costs, A_ub=[calibrations], b_ub=[at], A_eq=[np.ones(len(costs))], b_eq=[1.0], bounds=(0, 1))
    assert shares.success
    return shares.fun


VALUES = st.floats(0.0, 10.0, allow_subnormal=False).map(lambda value: round(value, 3))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), VALUES)
def test_cost_of_a_mixture_is_that_of_the_best_shares(points, at):
    calibrations, costs = np.array(points).T
    expected = least_mixture(calibrations, costs, max(at, calibrations.min()))
    assert float(mixture_cost(calibrations, costs, at)) == pytest.approx(expected, abs=1e-6)


def test_mixtures_of_resamples_are_those_of_each():
    rng = np.random.default_rng(0)
    calibrations, costs, at = rng.random((4, 50)), rng.random((4, 50)), rng.random(50)
    calibrations[1, 7] = costs[2, 9] = at[11] = math.nan
    found = mixture_cost(calibrations, costs, at)
    each = [mixture_cost(calibrations[:, r], costs[:, r], at[r]) for r in range(50)]
    np.testing.assert_array_equal(found, each)
    assert np.flatnonzero(np.isnan(found)).tolist() == [7, 9, 11]


def near(**values):
    """W1 by method, with intervals of 0.01 to both sides."""
    return {name: (value, value - 0.01, value + 0.01) for name, value in values.items()}


def test_of_methods_as_well_calibrated_the_cheapest_is_chosen():
    both = near(soft=0.10, hard=0.11, anchored=0.11)
    costs = {"soft": 0.5, "hard": 0.3, "anchored": 0.1}
    found = choose_method({"ood": both, "unseen": both}, {}, costs, margin=0.01)
    assert found == Choice("anchored", ("soft", "hard", "anchored"), {})
    assert choose_method({"ood": both}, {}, {"soft": 0.2, "hard": 0.2}, 0.01).method == "soft"
    assert choose_method({"ood": both}, {}, {"soft": math.nan}, 0.01) == Choice("", ("soft", "hard", "anchored"), {})
    assert choose_method({}, {}, {}, 0.01) == Choice("", (), {})


def test_tests_decide_and_intervals_only_where_there_is_none():
    distances = {"ood": near(soft=0.10, far=0.20), "unseen": near(soft=0.10, far=0.10)}
    costs = {"soft": 0.5, "far": 0.1}
    # 0.19 is more than the margin above 0.11.
    assert choose_method(distances, {}, costs, 0.01).worse == {"far": ("ood", "soft", False)}
    assert choose_method(distances, {}, costs, 0.08).method == "far"
    # A test that cannot tell is a test; one of the other order is the same.
    assert choose_method(distances, {"ood": {("far", "soft"): "cannot tell"}}, costs, 0.01).method == "far"
    for pair, verdict in ((("far", "soft"), "worse"), (("soft", "far"), "better")):
        found = choose_method(distances, {"ood": {pair: verdict}}, costs, 0.08)
        assert found == Choice("soft", ("soft",), {"far": ("ood", "soft", True)})
    # Tests on one split say nothing of the other.
    assert choose_method(distances, {"unseen": {("far", "soft"): "better"}}, costs, 0.01).method == ""


def test_a_test_against_any_method_counts_not_only_against_the_best():
    """Half was tested against soft, and not against hard, which is the best and whose interval it overlaps."""
    distances = {"ood": {"soft": (0.09, 0.05, 0.13), "hard": (0.08, 0.05, 0.12), "half": (0.14, 0.10, 0.18)}}
    verdicts = {"ood": {("soft", "hard"): "cannot tell", ("half", "soft"): "worse"}}
    found = choose_method(distances, verdicts, {"soft": 0.5, "hard": 0.9, "half": 0.1}, 0.01)
    assert found == Choice("soft", ("soft", "hard"), {"half": ("ood", "soft", True)})


def test_an_undefined_distance_is_no_candidate():
    distances = {"ood": near(soft=0.1, hard=math.nan), "unseen": near(soft=0.1, hard=0.1, late=0.1)}
    found = choose_method(distances, {}, {"soft": 0.5, "hard": 0.1, "late": 0.1}, 0.01)
    assert found == Choice("soft", ("soft",), {"hard": ("ood", "", False), "late": ("ood", "", False)})
