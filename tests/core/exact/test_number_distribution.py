"""Bounds of a model's distribution function against synthetic models whose law is known."""

import numpy as np
import pytest

from pipeline.artifacts.scores import CDF_COLUMNS
from pipeline.core.exact.number_law import CDF_POINTS, bound_number_law
from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.quantiles import quantile
from tests.core.exact.test_number_law import LAWS, ONE_DIGIT, THREE_DIGITS, make_model


def distribution(law, digit_tokens, seed, max_positions=3000):
    model = make_model(law, digit_tokens, np.random.default_rng(seed))
    bounds = bound_number_law(
        law, digit_tokens, model.score, width=0.002, max_positions=max_positions, max_new_tokens=12, round_size=16
    )
    return model, bounds


@pytest.mark.parametrize("digit_tokens", [ONE_DIGIT, THREE_DIGITS], ids=["one", "three"])
@pytest.mark.parametrize("max_positions", [3, 3000])
@pytest.mark.parametrize("name", LAWS)
def test_the_models_distribution_function_is_inside(name, digit_tokens, max_positions):
    law = LAWS[name]
    model, bounds = distribution(law, digit_tokens, len(name), max_positions)
    found = bounds.distribution
    assert tuple(found) == CDF_COLUMNS[1:]
    x, low, high = found["x"], found["cdf_low"], found["cdf_high"]
    values, weights, _, _ = model.law(law, masked=True)
    exact = np.concatenate([[0], np.cumsum(weights)])[np.searchsorted(values, x, "right")]
    # Both are clipped to the window: at its upper end they are 1.
    assert (low[-1], high[-1], found["target_cdf"][-1]) == (1, 1, 1)
    assert (low[:-1] <= exact[:-1] + 1e-9).all() and (exact[:-1] <= high[:-1] + 1e-9).all()
    np.testing.assert_allclose(found["target_cdf"][:-1], law.freeze().cdf(x[:-1]))
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all() and (low <= high).all()


@pytest.mark.parametrize("name", LAWS)
def test_points_are_the_same_for_every_model_and_span_the_window(name):
    law = LAWS[name]
    one, other = (distribution(law, ONE_DIGIT, seed, max_positions=5)[1].distribution["x"] for seed in (1, 2))
    np.testing.assert_array_equal(one, other)
    assert 2 <= len(one) <= CDF_POINTS and (np.diff(one) > 0).all()
    ends = np.clip(quantile(law, np.array(QUANTILE_RANGE)), *law.support)
    assert (one[0], one[-1]) == pytest.approx(tuple(ends))
    if law.integer:
        np.testing.assert_array_equal(one, np.arange(ends[0], ends[1] + 1))
    else:
        # Neither the body's probability nor the range has a gap of more than a few points.
        assert np.diff(law.freeze().cdf(one)).max() < 0.02 and np.diff(one).max() < (ends[1] - ends[0]) / 50
