"""Sets of laws: values worked out by hand and by brute force."""

import numpy as np
import pytest

from pipeline.axes.credal.hull import diameter, entropy_bounds, entropy_split, hull_distance, laws_of, set_row

MEMBERS = np.array([[0.6, 0.4], [0.9, 0.1]])


def test_a_law_outside_the_hull_and_one_inside():
    found = [hull_distance(MEMBERS, np.array([share, 1 - share])) for share in (0.5, 0.75, 0.95)]
    assert found == pytest.approx([0.1, 0, 0.05], abs=1e-9)
    # A mixture of three laws over four classes, by brute force over its weights.
    rng = np.random.default_rng(0)
    members, law = rng.dirichlet(np.ones(4), size=3), rng.dirichlet(np.ones(4))
    weights = rng.dirichlet(np.ones(3), size=200_000)
    assert hull_distance(members, law) == pytest.approx(
        0.5 * np.abs(weights @ members - law).sum(axis=1).min(), abs=0.003
    )


def test_entropies_of_two_members():
    assert entropy_split(MEMBERS) == pytest.approx(
        {"within_entropy_nats": 0.49905, "between_entropy_nats": 0.06329}, abs=5e-6
    )
    bounds = entropy_bounds(MEMBERS)
    assert bounds == pytest.approx({"lower_entropy_nats": 0.32508, "upper_entropy_nats": 0.67301}, abs=5e-6)
    across = entropy_bounds(np.array([[0.4, 0.6], [0.9, 0.1]]))
    assert across["upper_entropy_nats"] == pytest.approx(np.log(2), abs=1e-6)
    three = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=3)
    mixtures = np.random.default_rng(1).dirichlet(np.ones(3), size=200_000) @ three
    brute = (-mixtures * np.log(mixtures)).sum(axis=1).max()
    assert entropy_bounds(three)["upper_entropy_nats"] == pytest.approx(brute, abs=2e-4)
    assert entropy_split(MEMBERS[:1])["between_entropy_nats"] == 0 and diameter(MEMBERS) == pytest.approx(0.3)


def test_laws_are_over_the_classes_of_all():
    found = laws_of([["a", "a", "b"], ["c"]], ["b"])
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3, 0], [0, 0, 1]])


def test_the_set_of_two_sure_members():
    apart = set_row([["a"] * 20, ["b"] * 20])
    assert apart["diameter"] == 1 and apart["lower_entropy_nats"] == apart["within_entropy_nats"] == 0
    assert apart["between_entropy_nats"] == pytest.approx(np.log(2)) == apart["upper_entropy_nats"]
