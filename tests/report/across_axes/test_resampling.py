"""Tests of what carries over to language, against SciPy and by their own error rates."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.axes.mcq.multiple_choice import total_variation, total_variation_floor
from pipeline.core.statistics.intervals import newcombe_interval
from pipeline.report.across_axes.comparisons import compare_prompts, compare_rates, compare_total_variation

NAMES = (0, "open", "open", "metric", "m", "soft", "base")


def test_prompts_are_paired_and_the_difference_is_that_of_the_means():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=102)
    own = base + 0.1 + 0.05 * rng.normal(size=102)
    found = compare_prompts(own, base, NAMES, 1_000)
    assert found["difference"] == pytest.approx(own.mean() - base.mean()) and found["n"] == 102
    assert (found["value"], found["value_against"]) == (own.mean(), base.mean())
    # Prompts differ by far more than the conditions, which pairing takes out.
    error = (own - base).std() / math.sqrt(102)
    assert found["ci_high"] - found["ci_low"] == pytest.approx(2 * 1.96 * error, rel=0.12) and found["p"] < 0.001
    assert compare_prompts(own, base, NAMES, 100) == compare_prompts(own, base, NAMES, 100)


def test_undefined_prompts_are_left_out_of_each_mean_as_in_the_tables():
    own, base = np.array([1.0, 2.0, math.nan, 4.0]), np.array([0.0, math.nan, 1.0, 1.0])
    found = compare_prompts(own, base, NAMES, 200)
    assert found["n"] == 2 and found["value"] == pytest.approx(7 / 3) and found["value_against"] == pytest.approx(2 / 3)
    nothing = compare_prompts(np.full(4, math.nan), base, NAMES, 200)
    assert nothing["n"] == 0 and math.isnan(nothing["p"]) and math.isnan(nothing["difference"])


def test_the_test_of_prompts_holds_its_level_and_its_interval_covers():
    rng, rejected, covered = np.random.default_rng(1), 0, 0
    for run in range(150):
        base = rng.exponential(size=60)
        own = base + rng.laplace(size=60)
        found = compare_prompts(own, base, (run, *NAMES[1:]), 200)
        rejected += found["p"] <= 0.05
        covered += found["ci_low"] <= 0 <= found["ci_high"]
    # 5% and 95% of 150 runs, and two and a half standard errors.
    assert rejected / 150 < 0.095 and covered / 150 > 0.88


def test_rates_of_two_samples():
    found = compare_rates((61, 33), (300, 300))
    assert (found["n"], found["value"], found["value_against"]) == (300, 61 / 300, 33 / 300)
    assert (found["ci_low"], found["ci_high"]) == newcombe_interval((61, 33), (300, 300))
    assert found["p"] == stats.fisher_exact([[61, 239], [33, 267]]).pvalue
    assert math.isnan(compare_rates((0, 3), (0, 10))["p"])


def test_total_variation_is_compared_at_the_samples_sizes():
    own, base = np.array([40, 5, 3, 2]), np.array([260, 250, 240, 250])
    found = compare_total_variation(own, base, NAMES, 500)
    assert found["difference"] == pytest.approx(total_variation(own) - total_variation(base)) and found["n"] == 50
    assert found["floor_difference"] == total_variation_floor(50) - total_variation_floor(1000) > 0.07
    assert found["p"] < 0.001 and found["ci_low"] > found["floor_difference"]
    none = compare_total_variation(np.zeros(4, dtype=np.int64), base, NAMES, 500)
    assert math.isnan(none["p"]) and math.isnan(none["difference"]) and none["n"] == 0


@pytest.mark.parametrize("chances", [(0.25, 0.25, 0.25, 0.25), (0.7, 0.1, 0.1, 0.1)])
def test_fewer_questions_that_parse_are_no_imbalance(chances):
    """40 against 400 of the same law: the smaller sample lies farther from uniform, and no test may say more."""
    rng, rejected, lower = np.random.default_rng(2), 0, 0
    for run in range(120):
        own, base = rng.multinomial(40, chances), rng.multinomial(400, chances)
        found = compare_total_variation(own, base, (run, *NAMES[1:]), 50)
        rejected += found["p"] <= 0.05
        lower += found["difference"] < 0
    assert rejected / 120 < 0.1
    if chances[0] == 0.25:
        assert lower / 120 < 0.1
