"""Quantiles, W1, floors and equal token budgets against SciPy and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.axes.structured.wasserstein import (
    distances,
    evaluate_prompt,
    perfect_sampler_replicates,
    within_budget,
)
from pipeline.core.laws.families import get_family
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import build_split, make_prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import over_families

INTEGER_PROMPTS = [p for split in ("unseen", "ood") for p in build_split(split, selection="selected") if p.law.integer]


@pytest.mark.parametrize("prompt", INTEGER_PROMPTS, ids=lambda prompt: prompt.prompt_id)
def test_integer_quantiles_equal_scipys(prompt):
    levels = np.concatenate([[1e-9, 1e-4, 0.5, 0.9999, 1 - 1e-9], np.linspace(0.001, 0.999, 201)])
    np.testing.assert_array_equal(quantile(prompt.law, levels), prompt.law.freeze().ppf(levels))


@settings(deadline=None)
@given(st.floats(0.5, 40), st.floats(1e-6, 1 - 1e-6))
def test_integer_quantile_inverts_the_cdf(rate, level):
    law = get_family("poisson").law_at({"lambda": rate})
    value = quantile(law, np.array([level]))[0]
    assert law.freeze().cdf(value) >= level > law.freeze().cdf(value - 1)


def test_degenerate_integer_law():
    # SciPy's own ppf does not terminate on some laws of a single value.
    assert quantile(Law("hypergeom", {"M": 10.0, "n": 10.0, "N": 4.0}), np.array([0.01, 0.99])).tolist() == [4, 4]


def wasserstein_1(samples, law):
    """Eq. 5 of one sample in the law's own unit."""
    return distances(np.sort(samples)[None], law)["wasserstein_1"][0]


def test_wasserstein_of_a_shifted_sample_is_the_shift():
    law = get_family("logistic").law_at({"mu": 0.0, "s": 1.0})
    perfect = law.freeze().ppf((np.arange(1, 101) - 0.5) / 100)
    assert wasserstein_1(np.random.default_rng(0).permutation(perfect) + 0.25, law) == pytest.approx(0.25)


def test_wasserstein_of_a_point_mass():
    # U(0, 1) against samples that are all 0: mean of (i - 0.5) / N is 1/2; Q95 - Q05 = 0.9.
    law = get_family("uniform").law_at({"a": 0.0, "b": 1.0})
    assert wasserstein_1(np.zeros(64), law) == pytest.approx(0.5)
    result = evaluate_prompt(["0.0"] * 64, law)
    assert result.wasserstein_1 == pytest.approx(0.5)
    assert result.wasserstein_1_normalised == pytest.approx(0.5 / 0.9)


def test_wasserstein_approaches_scipys_distance():
    law = get_family("gamma").law_at({"alpha": 3.0, "beta": 2.0})
    samples = np.random.default_rng(1).gamma(2.0, 3.0, 5000)
    reference = law.freeze().ppf((np.arange(200_000) + 0.5) / 200_000)
    assert wasserstein_1(samples, law) == pytest.approx(stats.wasserstein_distance(samples, reference), rel=5e-3)


def test_no_samples_is_undefined_not_zero():
    law = get_family("gaussian").law_at({"mu": 0.0, "sigma": 1.0})
    assert math.isnan(wasserstein_1(np.array([]), law))
    assert math.isnan(evaluate_prompt(["x", ""], law).wasserstein_1_normalised)


def test_reasons_are_counted():
    law = get_family("binomial").law_at({"n": 5.0, "p": 0.5})
    result = evaluate_prompt(["3", "2.5", "9", "abc", "", "1", "xyz"], law)
    assert result.samples.tolist() == [3, 1] and result.num_samples == 7
    assert result.invalid == {"not_an_integer": 1, "out_of_support": 1, "not_a_number": 2, "empty": 1}
    assert result.valid_rate == pytest.approx(2 / 7)


@pytest.mark.parametrize(("split", "low", "high"), [("ood", 0.0092, 0.0143), ("unseen", 0.0107, 0.0150)])
def test_perfect_sampler_floor_at_1000(split, low, high):
    # The ends are the measured 95% range of the aggregate; its mean lies inside.
    prompts = build_split(split, selection="selected")
    replicates = np.stack(
        [perfect_sampler_replicates(p.law, 1000, 40, random_stream(0, "test", p.prompt_id)) for p in prompts]
    )
    families = np.array([prompt.family for prompt in prompts])
    values = [over_families(column, families) for column in replicates.T]
    assert low < np.mean(values) < high


def test_family_median_by_hand():
    values = np.array([1.0, 3.0, math.nan, 10.0, 4.0])
    families = np.array(["a", "a", "b", "b", "c"])
    assert over_families(values, families) == 4.0  # medians of 2, 10, 4
    assert math.isnan(over_families(np.array([1.0, math.nan]), np.array(["a", "b"])))


UNIT = make_prompt("uniform", {"a": 0.0, "b": 1.0}, "ood")


@pytest.mark.parametrize(("budget", "answers"), [(1, 0), (3, 1), (7, 1), (8, 2), (9, 2), (10, 3), (99, 3)])
def test_the_first_generations_that_fit(budget, answers):
    row, within = within_budget(UNIT, [["0.5"]] * 3, np.array([3, 5, 2]), budget)
    assert row["answers_at_budget"] == answers == within.num_samples and row["num_tokens"] == 10
    assert math.isnan(row["wasserstein_1_normalised_at_budget"]) == math.isnan(row["valid_rate_at_budget"])
    assert math.isnan(row["valid_rate_at_budget"]) == (answers == 0)


def test_only_what_fits_is_measured():
    answers = [["0.1", "0.9"], [Invalid.EMPTY, "0.5"], ["0.5", "0.5"]]
    row, within = within_budget(UNIT, answers, np.array([10, 10, 10]), 25)
    assert row["answers_at_budget"] == 4 and row["num_valid_at_budget"] == 3
    assert row["valid_rate_at_budget"] == 0.75
    expected = evaluate_prompt(["0.1", "0.9", "0.5"], UNIT.law).wasserstein_1_normalised
    assert row["wasserstein_1_normalised_at_budget"] == expected
    assert row["num_tokens"] == 30 and within.samples.tolist() == [0.1, 0.9, 0.5]
