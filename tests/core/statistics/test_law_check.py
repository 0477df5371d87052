"""The chi-square test of samples against a law: by hand, against SciPy, and its size under the law; total variation."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom, chi2, chisquare

from pipeline.core.statistics.law_check import (
    LawCells,
    total_variation_deviations,
    total_variation_floors,
    total_variations,
)


def p_value(counts, law):
    return LawCells(law, sum(counts.values())).p_value(counts)


def test_equals_scipys():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(9, 3.0))
    counts = rng.multinomial(5000, law)
    cells, expected = LawCells(dict(enumerate(law)), 5000), chisquare(counts, law * 5000)
    observed = dict(enumerate(counts.tolist()))
    assert (cells.statistic(observed), cells.p_value(observed)) == pytest.approx((expected.statistic, expected.pvalue))
    # A tolerance only ever makes p-values larger.
    assert cells.p_value(observed, 0.1) > cells.p_value(observed)


def test_rare_outcomes_are_grouped_by_probability():
    # 100 samples: twenty outcomes of 3 expected each, then twenty of 1: groups of 9 (27), 9 (27), 2 and 19 (25).
    law = {**{f"r{index:02d}": 0.03 for index in range(20)}, **{f"s{index:02d}": 0.01 for index in range(20)}, "a": 0.2}
    cells = LawCells(law, 100)
    assert cells.probabilities == pytest.approx([0.2, 0.27, 0.27, 0.25, 0.01])
    assert cells.masses({"r00": 1, "r18": 1, "s00": 2, "x": 4}).tolist() == [0, 1, 0, 3, 4]


def test_samples_without_what_is_rare_are_noticed():
    # Half of the law are 100 common outcomes, half are 10,000 rare ones, of which the less probable half never
    # comes up (as with top-k): a single cell for all that is rare would hold what it should.
    rng = np.random.default_rng(3)
    weights = np.repeat([0.5 / 100, 0.5 / 5000 * 0.9, 0.5 / 5000 * 0.1], [100, 5000, 5000])
    law = dict(enumerate(weights))
    sound = Counter(rng.choice(len(weights), 2000, p=weights / weights.sum()).tolist())
    assert p_value(sound, law) > 1e-3
    cut = np.repeat([0.5 / 100, 0.5 / 5000, 0], [100, 5000, 5000])
    assert p_value(Counter(rng.choice(len(weights), 2000, p=cut / cut.sum()).tolist()), law) < 1e-4


def test_too_few_expected_others_join_the_least_probable_cell():
    # Expected 70, 28, and 2 others. (75 - 70)^2 / 70 + (22 + 3 - 30)^2 / 30.
    cells, counts = LawCells({"a": 0.7, "b": 0.28}, 100), {"b": 22, "a": 75, "x": 3}
    assert cells.statistic(counts) == pytest.approx(25 / 70 + 25 / 30) and cells.degrees_of_freedom == 1
    pearson, others = chi2.sf(25 / 70 + 25 / 30, 1), binom.sf(2, 100, 0.02)
    assert cells.p_value(counts) == pytest.approx(2 * min(pearson, others))


def test_impossible_outcomes_are_noticed():
    law = {"a": 0.6, "b": 0.4}
    assert p_value({"a": 60, "b": 40}, law) == 1
    # 500 samples that cannot be, and yet "b" and they are 40% together.
    assert p_value({"a": 1200, "b": 300, "x": 500}, law) < 1e-9
    for counts, law, message in (({}, {"a": 1.0}, "no samples"), ({"a": 1}, {"a": 0.7, "b": 0.4}, "probabilities")):
        with pytest.raises(ValueError, match=message):
            p_value(counts, law)


@pytest.mark.parametrize("concentration", [0.05, 5])
def test_level(concentration):
    """Laws with rare and common outcomes, and all but flat ones."""
    rng = np.random.default_rng(2)
    law = (0.9 * rng.dirichlet(np.full(400, concentration))).tolist()
    cells = LawCells(dict(enumerate(law)), 2000)
    draws = rng.multinomial(2000, [*law, 1 - sum(law)], size=2000).tolist()
    p_values = np.array([cells.p_value(dict(enumerate(counts))) for counts in draws])
    assert (p_values < 1e-3).mean() < 5e-3 and 0.02 < (p_values < 0.05).mean() < 0.075


def test_total_variation_by_hand_and_when_redrawn():
    law = np.array([0.5, 0.3, 0.2])
    # (|0.6 - 0.5| + |0.1 - 0.3| + |0.3 - 0.2|) / 2.
    assert total_variations(np.array([[6, 1, 3], [0, 0, 0]]), law) == pytest.approx([0.2, math.nan], nan_ok=True)
    # Two cells: E |Bin(n, p) / n - p|, a finite sum.
    floors = total_variation_floors(np.array([0.3, 0.7]), 20, 20_000, np.random.default_rng(0))
    expected = np.abs(np.arange(21) / 20 - 0.3) @ binom.pmf(np.arange(21), 20, 0.3)
    assert floors.mean() == pytest.approx(expected, abs=4 * floors.std() / math.sqrt(20_000))
    varied = total_variation_deviations(np.array([60, 10, 30]), law, 4_000, np.random.default_rng(0))
    assert varied.mean() == pytest.approx(0, abs=1e-12)
    # The distance is share of "a" + share of "c" - 0.7 nearly always: a binomial's deviation.
    assert varied.std() == pytest.approx(math.sqrt(0.9 * 0.1 / 100), rel=0.05)
    assert not total_variation_deviations(np.zeros(3, dtype=int), law, 5, np.random.default_rng(0)).any()
