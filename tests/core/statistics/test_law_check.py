"""The chi-square test of samples against a law: by hand, against SciPy, and its size under the law; total variation."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, chisquare

from pipeline.core.statistics.law_check import (
    GROUP_EXPECTED,
    MINIMUM_EXPECTED,
    LawCells,
    cells_of,
    pooled_p_values,
    total_variation_deviations,
    total_variation_floors,
    total_variations,
)


def compare_with_law(counts, law):
    return LawCells(law, sum(counts.values())).test(counts)


def test_by_hand_and_scipys():
    # Expected 50, 30, 20: (10^2 / 50) + (5^2 / 30) + (5^2 / 20) = 2 + 5/6 + 5/4.
    test = compare_with_law({"a": 60, "b": 25, "c": 15}, {"a": 0.5, "b": 0.3, "c": 0.2})
    assert test.statistic == pytest.approx(49 / 12)
    assert (test.degrees_of_freedom, test.num_samples, test.worst) == (2, 100, ("a", 60, 50.0))
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(9, 3.0))
    counts = rng.multinomial(5000, law)
    test, expected = compare_with_law(dict(enumerate(counts)), dict(enumerate(law))), chisquare(counts, law * 5000)
    assert (test.statistic, test.p_value) == pytest.approx((expected.statistic, expected.pvalue))


def test_rare_outcomes_are_grouped_by_probability():
    # 100 samples: twenty outcomes of 3 expected each, then twenty of 1: groups of 9 (27), 9 (27), 2 and 19 (25).
    law = {**{f"r{index:02d}": 0.03 for index in range(20)}, **{f"s{index:02d}": 0.01 for index in range(20)}, "a": 0.2}
    cells, rest = cells_of(law, 100)
    assert [len(cell) for cell in cells] == [1, 9, 9, 21] and rest == pytest.approx(0.01)
    assert cells[1][0] == "r00" and cells[3][:3] == ["r18", "r19", "s00"]


def test_samples_without_what_is_rare_are_noticed():
    # Half of the law are 100 common outcomes, half are 10,000 rare ones, of which the less probable half never
    # comes up (as with top-k): a single cell for all that is rare would hold what it should.
    rng = np.random.default_rng(3)
    weights = np.repeat([0.5 / 100, 0.5 / 5000 * 0.9, 0.5 / 5000 * 0.1], [100, 5000, 5000])
    law = dict(enumerate(weights))
    sound = Counter(rng.choice(len(weights), 2000, p=weights / weights.sum()).tolist())
    assert compare_with_law(sound, law).p_value > 1e-3
    cut = np.repeat([0.5 / 100, 0.5 / 5000, 0], [100, 5000, 5000])
    assert compare_with_law(Counter(rng.choice(len(weights), 2000, p=cut / cut.sum()).tolist()), law).p_value < 1e-4


def test_too_few_expected_others_join_the_least_probable_cell():
    # Expected 70, 28, and 2 others. (75 - 70)^2 / 70 + (22 + 3 - 30)^2 / 30.
    test = compare_with_law({"b": 22, "a": 75, "x": 3}, {"a": 0.7, "b": 0.28})
    assert test.statistic == pytest.approx(25 / 70 + 25 / 30) and test.degrees_of_freedom == 1
    pearson, others = chi2.sf(25 / 70 + 25 / 30, 1), binom.sf(2, 100, 0.02)
    assert test.p_value == pytest.approx(2 * min(pearson, others))


def test_impossible_outcomes_are_noticed():
    law = {"a": 0.6, "b": 0.4}
    assert compare_with_law({"a": 60, "b": 40}, law).p_value == 1
    # 500 samples that cannot be, and yet "b" and they are 40% together.
    test = compare_with_law({"a": 1200, "b": 300, "x": 500}, law)
    assert test.p_value < 1e-9 and test.worst == (None, 500, pytest.approx(0))
    for counts, law, message in (({}, {"a": 1.0}, "no samples"), ({"a": 1}, {"a": 0.7, "b": 0.4}, "probabilities")):
        with pytest.raises(ValueError, match=message):
            compare_with_law(counts, law)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30), st.floats(0.0, 0.5), st.integers(1, 5000))
def test_cells_cover_the_law(weights, missing, num_samples):
    total = sum(weights) / (1 - missing)
    law = {index: weight / total for index, weight in enumerate(weights)}
    cells, rest = cells_of(law, num_samples)
    masses = [sum(law[outcome] for outcome in cell) for cell in cells]
    assert sum(masses) + rest == pytest.approx(1)
    for cell, mass in zip(cells, masses, strict=True):
        least = MINIMUM_EXPECTED if len(cell) == 1 else GROUP_EXPECTED
        assert mass * num_samples >= least * (1 - 1e-9)


def test_refusals_of_another_law_equal_the_exact_power():
    # With two cells every count can be listed.
    cells, counts = LawCells({"a": 0.6, "b": 0.4}, 200), np.arange(201)
    refused = cells.p_values(np.stack([counts, 200 - counts, 0 * counts], axis=1)) < 1e-3
    for share in (0.6, 0.5, 0.45):
        exact = binom.pmf(counts, 200, share)[refused].sum()
        drawn = cells.draw(cells.masses({"a": share, "b": 1 - share}), 2000, np.random.default_rng(0))
        rate = (cells.p_values(drawn) < 1e-3).mean()
        assert rate == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000) + 1e-3)


@pytest.mark.parametrize("concentration", [0.05, 5])
def test_level_of_single_and_pooled_tests(concentration):
    """Laws with rare and common outcomes, and all but flat ones: single tests and their sum refuse what is sound."""
    rng = np.random.default_rng(2)
    laws = [dict(enumerate((0.9 * rng.dirichlet(np.full(400, concentration))).tolist())) for _ in range(3)]
    cells = [LawCells(law, 2000) for law in laws]
    drawn = [test.draw(test.probabilities, 10_000, rng) for test in cells]
    for test, counts in zip(cells, drawn, strict=True):
        p_values = test.p_values(counts)
        assert (p_values < 1e-3).mean() < 3e-3 and 0.02 < (p_values < 0.05).mean() < 0.07
    statistics = np.stack([test.statistics(counts) for test, counts in zip(cells, drawn, strict=True)])
    pooled = pooled_p_values(cells, statistics)
    assert (pooled < 1e-3).mean() < 3e-3 and 0.03 < (pooled < 0.05).mean() < 0.07
    # A tolerance only ever makes p-values larger.
    assert (pooled_p_values(cells, statistics, 0.1) > pooled).all()


def test_pooled_by_hand():
    cells = [LawCells({"a": 0.5, "b": 0.3, "c": 0.2}, 100), LawCells({"a": 0.6, "b": 0.4}, 100), LawCells({"a": 1}, 50)]
    assert pooled_p_values(cells, np.array([[4.0], [2.0], [0.0]])) == pytest.approx(chi2.sf(6, 3))
    assert pooled_p_values(cells[2:], np.array([[0.0]])) == 1


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
