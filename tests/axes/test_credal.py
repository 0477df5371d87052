"""Sets of laws: values worked out by hand and by brute force."""

import numpy as np
import pytest

from pipeline.axes.credal.evaluate import entropy_bounds, hull_distance, laws_of

MEMBERS = np.array([[0.6, 0.4], [0.9, 0.1]])


def test_a_law_outside_the_hull_and_one_inside():
    found = [hull_distance(MEMBERS, np.array([share, 1 - share])) for share in (0.5, 0.75, 0.95)]
    assert found == pytest.approx([0.1, 0, 0.05], abs=1e-9)
    # A mixture of three laws over four classes, by brute force over its weights.
    rng = np.random.default_rng(0)
    members, law = rng.dirichlet(np.ones(4), size=3), rng.dirichlet(np.ones(4))
    brute = 0.5 * np.abs(rng.dirichlet(np.ones(3), size=200_000) @ members - law).sum(axis=1).min()
    assert hull_distance(members, law) == pytest.approx(brute, abs=0.003)


def test_entropies_of_a_set():
    assert list(entropy_bounds(MEMBERS).values()) == pytest.approx([0.32508, 0.67301], abs=5e-6)
    across = entropy_bounds(np.array([[0.4, 0.6], [0.9, 0.1]]))
    assert across["upper_entropy_nats"] == pytest.approx(np.log(2), abs=1e-6)
    sure = entropy_bounds(laws_of([["a"] * 20, ["b"] * 20]))
    assert list(sure.values()) == pytest.approx([0, np.log(2)])
    three = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=3)
    mixtures = np.random.default_rng(1).dirichlet(np.ones(3), size=200_000) @ three
    brute = (-mixtures * np.log(mixtures)).sum(axis=1).max()
    assert entropy_bounds(three)["upper_entropy_nats"] == pytest.approx(brute, abs=2e-4)


def test_laws_are_over_the_classes_of_all():
    found = laws_of([["a", "a", "b"], ["c"]], ["b"])
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3, 0], [0, 0, 1]])
