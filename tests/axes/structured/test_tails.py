"""Errors of quantiles against NumPy's definition and direct simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.structured.tails import LEVELS, at_levels, positions, quantile_errors
from pipeline.core.laws.families import get_family

EXPONENTIAL = get_family("exponential").law_at({"lambda": 2.0})


def test_positions_by_hand():
    # ceil(n p): of 1,000 the 1st, 10th, 50th, 950th, 990th and 999th, counted from 0 here.
    assert positions(1000).tolist() == [0, 9, 49, 949, 989, 998]
    assert positions(250).tolist() == [0, 2, 12, 237, 247, 249]
    assert positions(1).tolist() == [0] * 6


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_sample_quantiles_are_numpys_inverted_distribution_function(values):
    ordered = np.sort(values)
    expected = np.quantile(ordered, LEVELS, method="inverted_cdf")
    np.testing.assert_array_equal(at_levels(ordered[None])[0], expected)


def test_errors_by_hand():
    # Exp(2): Q(p) = -log(1 - p) / 2, so Q95 - Q05 = log(19) / 2. A sample of one value 1 has every quantile 1.
    found = quantile_errors(EXPONENTIAL, at_levels(np.array([[1.0]])))[0]
    assert found == pytest.approx(np.abs(1 + np.log1p(-np.array(LEVELS)) / 2) / (np.log(19) / 2))


def test_undefined_without_samples_or_width():
    nothing = at_levels(np.empty((2, 0)))
    assert nothing.shape == (2, 6) and np.isnan(nothing).all()
    point = get_family("bernoulli").law_at({"p": 0.01})
    assert np.isnan(quantile_errors(point, np.zeros((1, 6)))).all()
