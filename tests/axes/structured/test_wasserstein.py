"""Quantiles, W1, floors, aggregation and intervals against SciPy and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.axes.structured.wasserstein import (
    evaluate_prompt,
    interquantile_width,
    perfect_sampler_replicates,
    wasserstein_1,
)
from pipeline.core.laws.families import get_family
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import build_split
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import bootstrap_families, over_families, wilson_interval

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


def test_bootstrap_covers_a_normal_mean():
    # Means of 20 families: the percentile interval covers 0 in about 19 of 20 samples;
    # at least 170 of 200 has probability above 0.999 for a true coverage of 0.92.
    rng = np.random.default_rng(7)
    families = np.array([f"f{i}" for i in range(20)])
    covered = 0
    for _ in range(200):
        low, high = bootstrap_families(rng.normal(size=20), families, "mean", replicates=200, rng=rng)
        covered += low <= 0 <= high
    assert 170 <= covered <= 200


@pytest.mark.parametrize("statistic", ["family_median", "family_mean", "mean"])
def test_bootstrap_equals_the_obvious_loop(statistic):
    rng = np.random.default_rng(3)
    families = np.array(list("aabbbcdddd"))
    values = rng.normal(size=10) + np.arange(10) / 3
    values[3] = math.nan
    found = bootstrap_families(values, families, statistic, replicates=20_000, rng=np.random.default_rng(0))
    members = [np.flatnonzero(families == name) for name in "abcd"]
    draws = []
    for _ in range(4000):
        rows = [rng.choice(members[f], size=len(members[f])) for f in rng.integers(4, size=4)]
        if statistic == "mean":
            draws.append(np.nanmean(values[np.concatenate(rows)]))
        else:
            labels = np.repeat(np.arange(4), [len(r) for r in rows])
            draws.append(over_families(values[np.concatenate(rows)], labels, statistic))
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    assert found == pytest.approx((low, high), abs=0.15)


def test_bootstrap_of_an_undefined_statistic():
    families = np.array(["a", "b"])
    interval = bootstrap_families(
        np.array([1.0, math.nan]), families, "family_median", replicates=50, rng=random_stream(0)
    )
    assert all(map(math.isnan, interval))


def test_wilson():
    # Wilson's formula by hand for 8 of 10, z = 1.959964.
    z = 1.959964
    centre = (0.8 + z * z / 20) / (1 + z * z / 10)
    half = z * math.sqrt(0.8 * 0.2 / 10 + z * z / 400) / (1 + z * z / 10)
    assert wilson_interval(8, 10) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert all(map(math.isnan, wilson_interval(0, 0)))


def test_width_of_bernoulli():
    assert interquantile_width(get_family("bernoulli").law_at({"p": 0.1})) == 1
