"""Masses of rounded laws against SciPy's probabilities, for every family; what SciPy gets wrong is an error."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.laws.rounded_law import RoundedLaw, rounded_law
from pipeline.errors import DomainError

NUM_DECIMALS = 2


def drawn_laws(family):
    """Five laws of a family's training grid; of its test grid where it is held out."""
    points = list(family.grid_points("train" if family.seen else "test"))
    rng = np.random.default_rng(0)
    return [family.law_at(points[i]) for i in rng.choice(len(points), min(5, len(points)), replace=False)]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.family_id)
def test_masses_are_scipys_probabilities(family):
    for law in drawn_laws(family):
        rounded = rounded_law(law, NUM_DECIMALS)
        low, high = quantile(law, np.array([0.001, 0.999])) * rounded.scale
        if law.integer:
            grid = np.arange(low, high + 1).astype(np.int64)
            expected = law.freeze().pmf(grid)
        else:
            # Of cells that lie in the support, so that none holds what would round to outside of it.
            grid = np.arange(math.ceil(low) + 1, math.floor(high))
            expected = np.diff(law.freeze().cdf((np.append(grid, grid[-1] + 1) - 0.5) / rounded.scale))
        masses = rounded.masses(grid, grid + 1)
        np.testing.assert_allclose(masses, expected, rtol=1e-9, atol=1e-13)
        first, last = rounded.bounds
        outside = rounded.masses(np.array([first, grid[-1] + 1]), np.array([grid[0], last + 1]))
        assert masses.sum() + outside.sum() == pytest.approx(1, abs=1e-12)


def test_quantiles_of_laws_without_a_variance():
    levels = np.array([1e-4, 0.5, 0.999])
    for law in (Law("zipf", {"a": 2.2}), Law("yulesimon", {"alpha": 1.5})):
        np.testing.assert_array_equal(quantile(law, levels), law.freeze().ppf(levels))


@pytest.mark.parametrize(("lower", "upper", "expected"), [(0.124, 0.626, (13, 62)), (-0.626, -0.124, (-62, -13))])
def test_the_grid_lies_inside_the_support(lower, upper, expected):
    assert RoundedLaw(Law("uniform", {"loc": lower, "scale": upper - lower}), 2).bounds == expected


@pytest.mark.parametrize(
    ("wrong_sf", "message"),
    [
        (lambda x, sf: np.where(x > 2, np.nan, sf), "has the mass nan"),
        (lambda x, sf: np.where((x > 2) & (x < 2.5), 0.0, sf), "has the mass -0.0"),
        (lambda x, sf: np.where(x > 2, sf, np.nan), "sum to nan"),
        (lambda x, sf: sf + 0.01, "sum to 1.01"),
    ],
    ids=["nan", "negative", "nan-at-the-median", "sum"],
)
def test_what_is_no_distribution_is_an_error_that_names_the_law(monkeypatch, wrong_sf, message):
    original = stats.norm.sf
    monkeypatch.setattr(stats.norm, "sf", lambda x, **parameters: wrong_sf(x, original(x, **parameters)))
    with pytest.raises(DomainError, match=re.escape("norm({'loc': 0.5, 'scale': 1.0}): ") + f".*{message}"):
        RoundedLaw(Law("norm", {"loc": 0.5, "scale": 1.0}), 1).masses(np.array([-5, 22]), np.array([5, 30]))
