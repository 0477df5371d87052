"""The sign-flip test against SciPy's, and its interval as the inversion of that test."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.sign_flips import Effect, sign_flip_effect


def exact_p(differences, mean=0.0):
    """Of all patterns of signs, by SciPy."""
    shifted = np.asarray(differences) - mean
    return stats.permutation_test((shifted,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue


@pytest.mark.parametrize(
    "differences",
    [[0.3, -0.1, 0.2, 0.4, 0.1, -0.05, 0.25, 0.15], [1, 0, 1, 1, -1, 0, 1, 1], [2, -3, 0.5, 0.1, -0.2, 0.7, 0.4, -9]],
)
def test_p_is_that_of_all_patterns_and_the_interval_where_it_turns(differences):
    found = sign_flip_effect(np.array(differences, dtype=float), random_stream(0))
    assert found.n == 8 and found.estimate == pytest.approx(np.mean(differences))
    assert found.p == pytest.approx(exact_p(differences))
    assert (found.p <= 0.05) == (not found.ci_low <= 0 <= found.ci_high)
    ends = ((0.05, found.ci_low, -1e-6), (0.05, found.ci_high, 1e-6), (0.1, found.low_90, -1e-6))
    for level, end, outwards in (*ends, (0.1, found.high_90, 1e-6)):
        assert exact_p(differences, end + outwards) <= level < exact_p(differences, end - outwards)


def test_random_patterns_are_as_good_as_all():
    differences = np.random.default_rng(0).normal(0.3, 1, size=40)
    found = sign_flip_effect(differences, random_stream(1))
    t = stats.ttest_1samp(differences, 0)
    assert found.p == pytest.approx(t.pvalue, rel=0.3)
    assert found[2:4] == pytest.approx(tuple(t.confidence_interval()), abs=0.03)


def test_too_few_pairs_have_no_interval_and_undefined_ones_are_left_out():
    few = sign_flip_effect(np.array([0.2, math.nan, 0.3, 0.2, 0.4, 0.1]), random_stream(0))
    assert (few.n, few.p) == (5, 2 / 2**5) and math.isnan(few.ci_low) and math.isnan(few.ci_high)
    assert sign_flip_effect(np.zeros(8), random_stream(0)) == Effect(8, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    assert sign_flip_effect(np.array([math.nan]), random_stream(0)).n == 0


@pytest.mark.parametrize(("families", "runs"), [(6, 400), (24, 150)])
def test_the_level_holds_where_families_differ(families, runs):
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(runs):
        found = sign_flip_effect(0.03 * rng.laplace(size=families), rng)
        rejected += not found.ci_low <= 0 <= found.ci_high
    # 5% of the runs, and two standard errors.
    assert rejected / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)
