"""Sets of laws: values worked out by hand, and what members of one law are apart by chance."""

import numpy as np
import pytest

from pipeline.axes.credal.hull import (
    diameter,
    entropy_bounds,
    entropy_split,
    expected_information_gain,
    hull_distances,
)
from pipeline.axes.credal.sets import laws_of, set_row

MEMBERS = np.array([[0.6, 0.4], [0.9, 0.1]])


def test_a_law_outside_the_hull_and_one_inside():
    found = hull_distances([MEMBERS, MEMBERS, MEMBERS], [np.array([h, 1 - h]) for h in (0.5, 0.75, 0.95)])
    assert [distance for distance, _ in found] == pytest.approx([0.1, 0, 0.05])
    assert all(weights.sum() == pytest.approx(1) for _, weights in found)
    # As many programmes as are solved together, and one more.
    many = hull_distances([MEMBERS] * 51, [np.array([0.5, 0.5])] * 51)
    assert [distance for distance, _ in many] == pytest.approx([0.1] * 51)


def test_entropies_of_two_members():
    assert entropy_split(MEMBERS) == pytest.approx(
        {"within_entropy_nats": 0.49905, "between_entropy_nats": 0.06329}, abs=5e-6
    )
    bounds = entropy_bounds(MEMBERS)
    assert bounds == pytest.approx({"lower_entropy_nats": 0.32508, "upper_entropy_nats": 0.67301}, abs=5e-6)
    across = entropy_bounds(np.array([[0.4, 0.6], [0.9, 0.1]]))
    assert across["upper_entropy_nats"] == pytest.approx(np.log(2), abs=1e-6)
    assert entropy_split(MEMBERS[:1])["between_entropy_nats"] == 0 and diameter(MEMBERS) == pytest.approx(0.3)


def test_expected_information_gain_of_a_question_that_halves_the_hypotheses():
    halved = np.repeat([[1.0, 0.0], [0.0, 1.0]], 10, axis=0)
    assert expected_information_gain(halved) == pytest.approx(0.6931, abs=5e-5)
    assert expected_information_gain(np.full((20, 2), 0.5)) == pytest.approx(0, abs=1e-12)


def test_laws_are_over_the_classes_of_all():
    found = laws_of([["a", "a", "b"], ["c"]], ["b"])
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3, 0], [0, 0, 1]])


def test_members_of_one_law_are_as_far_apart_as_chance_says():
    rng = np.random.default_rng(0)
    rows = [set_row([list(rng.choice(list("abcd"), size=20)) for _ in range(3)], rng) for _ in range(60)]
    for name, floor in (("between_entropy_nats", "between_by_chance"), ("diameter", "diameter_by_chance")):
        values, floors = (np.array([row[key] for row in rows]) for key in (name, floor))
        assert values.mean() == pytest.approx(floors.mean(), abs=3 * values.std() / np.sqrt(60))
    apart = set_row([["a"] * 20, ["b"] * 20], rng)
    assert apart["diameter"] == 1 and apart["diameter_by_chance"] < 0.5
    assert apart["between_entropy_nats"] == pytest.approx(np.log(2)) and apart["lower_entropy_nats"] == 0
