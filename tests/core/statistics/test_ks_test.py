"""Kolmogorov-Smirnov tests: against SciPy, and against permutations that are drawn."""

import numpy as np
import pytest
from scipy import stats

from pipeline.core.statistics.ks_test import ks_p_value, passes

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("draw", [lambda mean, n: RNG.poisson(mean, n), lambda mean, n: RNG.random(n) < mean / 9])
def test_the_permutation_p_is_what_drawn_permutations_estimate(draw):
    answers, reference = draw(4.5, 97), draw(4.0, 2_000)
    values, sizes = np.unique(np.concatenate([answers, reference]), return_counts=True)
    own = (answers[:, None] == values).sum(axis=0)
    drawn = np.cumsum([own, *RNG.multivariate_hypergeometric(sizes, 97, size=200_000)], axis=1)
    distances = np.abs(drawn / 97 - (np.cumsum(sizes) - drawn) / 2_000).max(axis=1).round(12)
    exact, estimate = ks_p_value(answers, reference, discrete=True), (distances[1:] >= distances[0]).mean()
    assert 1e-3 < exact < 0.9 and exact == pytest.approx(estimate, abs=4 * np.sqrt(exact / 200_000))


@pytest.mark.parametrize(("size", "shift"), [(100, 0.0), (100, 1.0), (1, 0.0)])
def test_a_continuous_laws_p_is_scipys_of_the_first_hundred(size, shift):
    answers, reference = RNG.normal(shift, 1, size), RNG.normal(0, 1, 10_000)
    p = stats.ks_2samp(answers, reference, method="exact").pvalue
    assert ks_p_value(answers, reference, discrete=False) == p
    assert passes(np.append(answers, [9.0] * (size // 2)), reference, discrete=False) == (p > 1e-4) == (shift == 0)
