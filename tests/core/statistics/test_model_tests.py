"""The test over models: level and power by simulation, with families and prompts that all models share."""

import math

import numpy as np
import pytest

from pipeline.core.statistics.condition_tests import comparison_verdict
from pipeline.core.statistics.intervals import over_families, paired_difference_draws
from pipeline.core.statistics.model_tests import over_models


def test_one_model_allows_no_inference_and_undefined_ones_are_left_out():
    draws = np.zeros((2, 5))
    assert over_models(np.array([-0.1]), draws[:1], np.random.default_rng(0)) is None
    assert over_models(np.array([-0.1, math.nan]), draws, np.random.default_rng(0)) is None


def test_eight_of_twelve_models_are_no_majority_that_a_test_can_see():
    differences = np.repeat([-0.1, 0.1], [8, 4])
    found = over_models(differences, np.repeat(differences[:, None], 2_000, axis=1), np.random.default_rng(0))
    assert (found.models, found.lower, found.higher) == (12, 8, 4)
    assert found.p == pytest.approx(0.388, abs=5e-4)
    assert found.ci_low < 0 < found.ci_high and found.difference == pytest.approx(-0.1 / 3)
    # 95% of binomial draws of 12 models at 8/12.
    error = 0.2 * math.sqrt(8 / 12 * 4 / 12 / 12)
    assert found.ci_high - found.ci_low == pytest.approx(2 * 1.96 * error, rel=0.15)


def simulated(effect, rng, models=12):
    """float64[M, P] of own and base: effects vary between models, and between families that all models share."""
    families = np.repeat(np.arange(6), 3)
    levels = 0.1 + 0.05 * rng.exponential(size=(models, 1)) + 0.05 * rng.exponential(size=6)[families]
    shift = effect + 0.03 * rng.normal(size=(models, 1)) + 0.01 * rng.normal(size=6)[families]
    own = levels + shift + 0.01 * rng.normal(size=(models, 18))
    return own, levels + 0.01 * rng.normal(size=(models, 18)), families


def test_level_and_power_over_models():
    rng = np.random.default_rng(3)
    called = covered = found = 0
    for _ in range(120):
        for effect in (0.0, -0.06):
            own, base, families = simulated(effect, rng)
            medians = [np.array([over_families(row, families) for row in side]) for side in (own, base)]
            draws = paired_difference_draws(own, base, families, replicates=200, rng=rng)
            result = over_models(medians[0] - medians[1], draws, rng)
            verdict = comparison_verdict((result.ci_low, result.ci_high), result.p, 0.05, 0.01)
            covered += result.ci_low <= effect <= result.ci_high
            called += effect == 0 and verdict in ("better", "worse")
            found += effect != 0 and verdict == "better"
    assert covered / 240 > 0.92 and called / 120 <= 0.05 and found / 120 > 0.85
