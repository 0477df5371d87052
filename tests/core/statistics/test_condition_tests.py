"""Tests of conditions: what is corrected and said."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.core.statistics.condition_tests import comparison_verdict, heterogeneity, holm


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04: times 4, 3, 2, 1 = .02, .03, .06, .04; monotone .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    # One that is undefined stays in the count: .01 is multiplied by 3, not 2.
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)


@pytest.mark.parametrize(
    ("interval", "p", "margin", "floor_difference", "expected"),
    [
        ((-0.12, -0.08), 0.01, 0.01, 0.0, "better"),
        ((0.08, 0.12), 0.05, 0.01, math.nan, "worse"),
        ((-0.12, -0.08), 0.06, 0.01, 0.0, "cannot tell"),
        # Shown not to be 0, but not to be relevant.
        ((-0.02, -0.008), 0.001, 0.01, 0.0, "cannot tell"),
        ((-0.006, -0.002), 0.001, 0.01, 0.0, "no relevant difference"),
        ((-0.006, 0.002), 0.9, 0.0, 0.0, "cannot tell"),
        # Perfect samplers of these sizes would differ by 0.03.
        ((0.02, 0.05), 0.001, 0.0, 0.03, "cannot tell"),
        ((-0.006, 0.002), 0.9, 0.01, 0.03, "cannot tell"),
        ((math.nan, math.nan), 0.9, 0.01, 0.0, "undefined"),
    ],
)
def test_verdicts(interval, p, margin, floor_difference, expected):
    assert comparison_verdict(interval, p, 0.05, margin, floor_difference) == expected
    other = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert comparison_verdict(interval, p, 0.05, margin, floor_difference, "higher") == other


def test_models_whose_changes_differ():
    """Changes of items that all models share take no part, so p is that of the rest, by the law of Cochran's Q."""
    rng = np.random.default_rng(0)
    shared, spread = rng.normal(0, 2, 300), rng.normal(0, 1, 8)
    for size in (0.0, 0.05, 0.1, 0.3):
        noise = rng.normal(0, 1, (8, 300))
        deviation, p = heterogeneity(size * spread[:, None] + noise, rng)
        means, errors = noise.mean(axis=1) + size * spread, noise.var(axis=1, ddof=1).mean() / 300
        q = ((means - means.mean()) ** 2).sum() / errors
        assert p == pytest.approx(stats.chi2.sf(q, 7), abs=0.03)
        assert deviation == pytest.approx(math.sqrt(max(errors * (q / 7 - 1), 0)))
    found = [heterogeneity(shared + rng.normal(0, 1, (8, 300)), rng)[1] for _ in range(20)]
    assert 0.3 < np.mean(found) < 0.7
