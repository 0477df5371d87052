"""Sets of laws: values worked out by hand and by brute force."""

import numpy as np
import pytest

from pipeline.axes.credal.evaluate import hull_distance

MEMBERS = np.array([[0.6, 0.4], [0.9, 0.1]])


def test_a_law_outside_the_hull_and_one_inside():
    found = [hull_distance(MEMBERS, np.array([share, 1 - share])) for share in (0.5, 0.75, 0.95)]
    assert found == pytest.approx([0.1, 0, 0.05], abs=1e-9)
    # A mixture of three laws over four classes, by brute force over its weights.
    rng = np.random.default_rng(0)
    members, law = rng.dirichlet(np.ones(4), size=3), rng.dirichlet(np.ones(4))
    brute = 0.5 * np.abs(rng.dirichlet(np.ones(3), size=200_000) @ members - law).sum(axis=1).min()
    assert hull_distance(members, law) == pytest.approx(brute, abs=0.003)
