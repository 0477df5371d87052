"""The test of two samples' distances from uniform, by its own error rates."""

import math

import numpy as np
import pytest

from pipeline.axes.mcq.multiple_choice import total_variation, total_variation_effect, total_variation_floor


def effect_of(own, base, seed=0):
    return total_variation_effect(own, base, np.random.default_rng(seed))


def test_total_variation_is_compared_at_the_samples_sizes():
    own, base = np.array([40, 5, 3, 2]), np.array([260, 250, 240, 250])
    found = effect_of(own, base)
    assert found.estimate == pytest.approx(total_variation(own) - total_variation(base)) and found.n == 50
    floors = total_variation_floor(50) - total_variation_floor(1000)
    assert found.p < 0.001 and found.low_90 > found.ci_low > floors > 0.07 and found.high_90 < found.ci_high
    none = effect_of(np.zeros(4, dtype=np.int64), base)
    assert math.isnan(none.p) and math.isnan(none.estimate) and none.n == 0


@pytest.mark.parametrize("chances", [(0.25, 0.25, 0.25, 0.25), (0.7, 0.1, 0.1, 0.1)])
def test_fewer_questions_that_parse_are_no_imbalance(chances):
    """40 against 400 of the same law: the smaller sample lies farther from uniform, and no test may say more."""
    rng, rejected, lower = np.random.default_rng(2), 0, 0
    for run in range(120):
        own, base = rng.multinomial(40, chances), rng.multinomial(400, chances)
        found = effect_of(own, base, run)
        rejected += found.p <= 0.05
        # One statistic: p is at most .05 if and only if the interval leaves out 0.
        assert (found.p <= 0.05) == (not found.ci_low <= 0 <= found.ci_high)
        lower += found.estimate < 0
    assert rejected / 120 < 0.1
    if chances[0] == 0.25:
        assert lower / 120 < 0.1


def test_equal_distances_on_different_letters_are_rejected_at_the_level():
    """Of answers that are A in .925 or B in .925, both .675 from uniform; without its standard error, .09."""
    rng, rejected = np.random.default_rng(3), 0
    for run in range(2000):
        own, base = (
            rng.multinomial(1000, chances) for chances in ((0.925, *[0.025] * 3), (0.025, 0.925, 0.025, 0.025))
        )
        rejected += effect_of(own, base, run).p <= 0.05
    # 5% of 2,000 runs, and two standard errors.
    assert rejected / 2000 <= 0.06
