"""Resampling, half-samples and intervals: closed forms, a plain loop, and coverage by simulation."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import (
    at_places,
    by_family,
    clustered_wilson_interval,
    combine,
    half_sample_deviations,
    half_samples,
    interval_of_deviations,
    wilson_interval,
)
from pipeline.core.statistics.summarise import aggregate_of, mean_of, summarise


@pytest.mark.parametrize("size", [20, 31])
def test_deviations_of_a_mean_have_its_standard_error(size):
    values = random_stream(2).normal(size=size)
    chosen = half_samples(size, 40_000, random_stream(3))
    deviations = half_sample_deviations(chosen @ values / chosen.sum(axis=1), size)
    assert deviations.mean() == pytest.approx(0, abs=1e-12)
    # 40,000 deviations: the standard deviation is known to 0.35%.
    assert deviations.std() == pytest.approx(values.std(ddof=1) / math.sqrt(size), rel=0.015)


def interval(values, families, deviations, statistic, replicates=200, seed=0):
    """What ``summarise`` makes of prompts whose values vary with their samples."""
    rows = pd.DataFrame({"condition": "base", "prompt_id": np.arange(len(values)), "family": families, "x": values})
    if deviations is not None:
        rows["x deviations"] = list(deviations)
    numbers = {"x": aggregate_of("x", statistic)}
    (row,) = summarise(rows, numbers, seed=seed, names=(), replicates=replicates, by_family={})
    return row["ci_low"], row["ci_high"]


def plain_loop(values, families, deviations, statistic, replicates, rng):
    """The same bootstrap, one prompt at a time."""
    members = [np.flatnonzero(families == name) for name in dict.fromkeys(families)]
    draws = []
    for _ in range(replicates):
        drawn = []
        for label, family in enumerate(rng.integers(len(members), size=len(members))):
            for prompt in rng.choice(members[family], size=len(members[family])):
                drawn.append((label, values[prompt] + rng.choice(deviations[prompt])))
        labels, found = np.array(drawn).T
        draws.append(combine(at_places(found, by_family(labels)), statistic))
    return np.nanpercentile(draws, [2.5, 97.5])


@pytest.mark.parametrize("statistic", ["family_median", "family_mean"])
def test_intervals_over_families_equal_the_plain_loop(statistic):
    rng = np.random.default_rng(0)
    families = np.array(list("aabbbcdd"))
    values = rng.normal(size=8) + 5 + np.arange(8) / 2
    values[3] = math.nan
    deviations = rng.normal(size=(8, 5))
    deviations -= deviations.mean(axis=1, keepdims=True)
    found = interval(values, families, deviations, statistic, replicates=20_000)
    assert found == pytest.approx(plain_loop(values, families, deviations, statistic, 1500, rng), abs=0.15)


def test_one_prompt_has_an_interval_from_its_samples_only():
    one = np.array(["a"])
    assert all(map(math.isnan, interval(np.ones(1), one, None, "median")))
    assert interval(np.ones(1), one, [[-0.2, 0.0, 0.2]], "median") == pytest.approx((0.8, 1.2))
    # No distance is below 0.
    assert interval(np.array([0.1]), one, [[-0.2, 0.0, 0.2]], "median") == pytest.approx((0.0, 0.3))
    assert interval_of_deviations(0.1, np.array([-0.2, 0.2]))[0] == 0


def test_changes_are_over_the_same_families_prompts_and_rates():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"prompt_id": np.arange(12), "family": np.repeat(list("abcd"), 3), "x": rng.normal(5, 2, 12)})
    both = pd.concat([rows.assign(condition=name, x=rows["x"] + more) for name, more in (("base", 0), ("soft", 0.5))])
    numbers = {"median": aggregate_of("x"), "mean": mean_of("x")}
    found = summarise(both, numbers, seed=0, names=(), replicates=300, by_family=numbers)
    assert [row["family"] for row in found] == [name for name in ("", *"abcd") for _ in range(4)]
    # A change that is the same at every prompt has no spread, however much the prompts differ.
    for row in found:
        if row["condition"] == "soft":
            assert [row[name] for name in ("change", "change_low", "change_high")] == pytest.approx([0.5] * 3)
            assert row["ci_low"] < row["value"] < row["ci_high"]
    with pytest.raises(KeyError):
        summarise(both.iloc[1:], numbers, seed=0, names=(), replicates=3, by_family={})


def test_coverage_of_nested_means():
    """Means of absolute deviations, by prompt: families, prompts and samples vary."""
    # E |N(0, 1)| times the lognormal mean of the scale, exp((0.3^2 + 0.2^2) / 2), is covered by nominal 95%
    # intervals in 400 simulations; the true coverage is between 92% and 98% if 360 to 397 of them cover it.
    truth = math.sqrt(2 / math.pi) * math.exp((0.3**2 + 0.2**2) / 2)
    families, covered = np.repeat(list("abcdefghijkl"), 2), 0
    for k in range(400):
        rng = random_stream(5, k)
        scale = np.exp(np.repeat(0.3 * rng.normal(size=12), 2) + 0.2 * rng.normal(size=24))
        draws = np.abs(rng.normal(size=(24, 10))) * scale[:, None]
        chosen = half_samples(10, 50, rng)
        deviations = [half_sample_deviations(chosen @ row / chosen.sum(axis=1), 10) for row in draws]
        low, high = interval(draws.mean(axis=1), families, deviations, "family_mean", seed=k)
        covered += low <= truth <= high
    assert 360 <= covered <= 397


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (7, 7), (3, 10), (480, 1000)])
def test_wilsons_interval_is_scipys(successes, trials):
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high))
    assert all(math.isnan(end) for end in wilson_interval(0, 0))


def test_rates_of_clusters_are_covered_where_wilsons_interval_is_too_narrow():
    rng, clustered, plain = random_stream(11), 0, 0
    for _ in range(400):
        found = rng.binomial(100, rng.beta(6, 2, size=3))
        (low, high), (narrow, wide) = (
            clustered_wilson_interval(found, np.full(3, 100)),
            wilson_interval(int(found.sum()), 300),
        )
        clustered, plain = clustered + (low <= 0.75 <= high), plain + (narrow <= 0.75 <= wide)
    assert clustered / 400 > 0.93 and plain / 400 < 0.6
    assert clustered_wilson_interval(np.array([90]), np.array([100])) == wilson_interval(90, 100)
    # 3 / 2 * (15^2 + 15^2) / 300^2 between clusters, 0.75 * 0.25 / 300 within: 12 times as much. Student's t at 2
    # degrees of freedom is 4.3027.
    size = 300 / 12 * (1.959964 / 4.302653) ** 2
    expected = wilson_interval(0.75 * size, size)
    assert clustered_wilson_interval(np.array([90, 60, 75]), np.full(3, 100)) == pytest.approx(expected, rel=1e-6)
