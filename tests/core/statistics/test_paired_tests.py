"""Paired tests against SciPy, hand-computed values and their own error rates."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.paired_tests import (
    holm,
    sign_flip_test,
)


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04: times 4, 3, 2, 1 = .02, .03, .06, .04; monotone .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    # One that is undefined stays in the count: .01 is multiplied by 3, not 2.
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)


def test_sign_flips_agree_with_all_assignments():
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.1, -0.05, 0.25, 0.15])
    exact = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    found = sign_flip_test(differences, 20_000, random_stream(0, "signs"))
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))
    assert sign_flip_test(differences, 0, random_stream(0, "signs"), most_enumerated=8) == pytest.approx(exact)
    assert sign_flip_test(np.zeros(5), 100, random_stream(0, "signs")) == 1.0
    assert math.isnan(sign_flip_test(np.array([]), 100, random_stream(0, "signs")))
