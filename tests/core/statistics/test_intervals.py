"""Half-samples and the hierarchical bootstrap: closed forms, a plain loop, and coverage by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import (
    bootstrap_families,
    clustered_wilson_interval,
    half_sample_deviations,
    half_samples,
    hierarchical_bootstrap,
    newcombe_interval,
    over_families,
    paired_difference_draws,
    wilson_interval,
)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 50])
def test_half_samples_have_half_the_values(size):
    chosen = half_samples(size, 30, random_stream(1))
    assert chosen.shape == (30, size) and (chosen.sum(axis=1) == size // 2).all()
    if size > 7:
        # Every value is in half of the halves: 15 of 30, and within 3 to 27 for 50 values.
        assert ((chosen.sum(axis=0) >= 3) & (chosen.sum(axis=0) <= 27)).all()


@pytest.mark.parametrize("size", [20, 31])
def test_deviations_of_a_mean_have_its_standard_error(size):
    values = random_stream(2).normal(size=size)
    chosen = half_samples(size, 40_000, random_stream(3))
    deviations = half_sample_deviations(chosen @ values / chosen.sum(axis=1), size)
    assert deviations.mean() == pytest.approx(0, abs=1e-12)
    # 40,000 deviations: the standard deviation is known to 0.35%.
    assert deviations.std() == pytest.approx(values.std(ddof=1) / math.sqrt(size), rel=0.015)


def test_deviations_are_0_where_there_is_nothing_to_redraw():
    assert half_sample_deviations(np.full(4, math.nan), 1).tolist() == [0] * 4
    assert half_sample_deviations(np.array([0.1, math.nan]), 5).tolist() == [0, 0]


def plain_loop(values, families, deviations, statistic, replicates, rng):
    """The same bootstrap, one prompt at a time."""
    members = [np.flatnonzero(families == name) for name in dict.fromkeys(families)]
    draws = []
    for _ in range(replicates):
        seeds = rng.integers(len(values), size=len(values))
        drawn = []
        for label, family in enumerate(rng.integers(len(members), size=len(members))):
            for prompt in rng.choice(members[family], size=len(members[family])):
                redrawn = [values[s, prompt] + rng.choice(deviations[s, prompt]) for s in seeds]
                drawn.append((label, np.mean(redrawn)))
        labels, found = np.array(drawn).T
        draws.append(np.nanmean(found) if statistic == "mean" else over_families(found, labels, statistic))
    return np.nanpercentile(draws, [2.5, 97.5])


@pytest.mark.parametrize("statistic", ["family_median", "family_mean", "mean"])
def test_hierarchical_bootstrap_equals_the_plain_loop(statistic):
    rng = np.random.default_rng(0)
    families = np.array(list("aabbbcdd"))
    values = rng.normal(size=(2, 8)) + np.arange(8) / 2
    values[:, 3] = math.nan
    deviations = rng.normal(size=(2, 8, 5))
    deviations -= deviations.mean(axis=2, keepdims=True)
    found = hierarchical_bootstrap(
        values, families, statistic, replicates=20_000, rng=random_stream(1), deviations=deviations
    )
    expected = plain_loop(values, families, deviations, statistic, 1500, rng)
    assert found == pytest.approx(expected, abs=0.15)


def test_without_samples_and_seeds_it_is_the_bootstrap_of_families():
    rng = np.random.default_rng(3)
    families, values = np.repeat(list("abcde"), 3), rng.normal(size=15)
    found = hierarchical_bootstrap(values, families, "mean", replicates=20_000, rng=random_stream(2))
    assert found == pytest.approx(
        bootstrap_families(values, families, "mean", replicates=20_000, rng=random_stream(3)), abs=0.03
    )


def test_every_level_widens_the_interval():
    families = np.repeat(list("abcd"), 2)
    values, spread = np.arange(8) / 10, np.array([-0.3, 0.3])
    widths = []
    for own, deviations in (
        (values, None),
        (values, np.broadcast_to(spread, (8, 2))),
        (np.stack([values - 0.5, values + 0.5]), np.broadcast_to(spread, (2, 8, 2))),
    ):
        low, high = hierarchical_bootstrap(
            own, families, "mean", replicates=4000, rng=random_stream(4), deviations=deviations
        )
        widths.append(high - low)
    assert widths[0] < widths[1] - 0.03 and widths[1] < widths[2] - 0.3


def test_one_prompt_has_an_interval_from_its_samples_only():
    one = np.array(["a"])
    assert all(map(math.isnan, hierarchical_bootstrap(np.ones(1), one, "mean", replicates=50, rng=random_stream(0))))
    low, high = hierarchical_bootstrap(
        np.ones(1), one, "mean", replicates=500, rng=random_stream(0), deviations=np.array([[-0.2, 0.0, 0.2]])
    )
    assert (low, high) == pytest.approx((0.8, 1.2))
    seeds = hierarchical_bootstrap(np.array([[1.0], [2.0]]), one, "mean", replicates=500, rng=random_stream(0))
    assert seeds == (1.0, 2.0)


def test_undefined_statistic_has_no_interval():
    values, families = np.array([math.nan, math.nan, 2.0]), np.array(list("aab"))
    median, mean = (
        hierarchical_bootstrap(values, families, statistic, replicates=200, rng=random_stream(0))
        for statistic in ("family_median", "mean")
    )
    assert all(map(math.isnan, median)) and mean == (2.0, 2.0)


def simulated(rng, samples):
    """Mean of absolute deviations, by prompt: families, prompts and samples vary; and their half-sample deviations."""
    scale = np.exp(np.repeat(0.3 * rng.normal(size=12), 2) + 0.2 * rng.normal(size=24))
    draws = np.abs(rng.normal(size=(24, samples))) * scale[:, None]
    chosen = half_samples(samples, 50, rng)
    deviations = [half_sample_deviations(chosen @ row / chosen.sum(axis=1), samples) for row in draws]
    return draws.mean(axis=1), np.array(deviations)


def test_coverage_of_nested_means():
    # E |N(0, 1)| times the lognormal mean of the scale, exp((0.3^2 + 0.2^2) / 2), is covered by nominal 95%
    # intervals in 400 simulations; the true coverage is between 92% and 98% if 360 to 397 of them cover it.
    truth = math.sqrt(2 / math.pi) * math.exp((0.3**2 + 0.2**2) / 2)
    families, covered = np.repeat(np.arange(12), 2), 0
    for k in range(400):
        rng = random_stream(5, k)
        values, deviations = simulated(rng, samples=10)
        low, high = hierarchical_bootstrap(values, families, "mean", replicates=200, rng=rng, deviations=deviations)
        covered += low <= truth <= high
    assert 360 <= covered <= 397


def test_coverage_of_one_prompts_distance():
    # W1 on the PIT scale of 100 answers from Beta(1.6, 1): what is to be covered is its mean over repeated samples.
    ranks = (np.arange(100) + 0.5) / 100
    halves_ranks = (np.arange(50) + 0.5) / 50
    repeated = np.sort(random_stream(6).beta(1.6, 1, (4000, 100)), axis=1)
    truth = np.abs(repeated - ranks).mean()
    covered = 0
    for k in range(400):
        rng = random_stream(7, k)
        ordered = np.sort(rng.beta(1.6, 1, 100))
        parts = np.broadcast_to(ordered, (200, 100))[half_samples(100, 200, rng)].reshape(200, 50)
        deviations = half_sample_deviations(np.abs(parts - halves_ranks).mean(axis=1), 100)
        low, high = hierarchical_bootstrap(
            np.array([np.abs(ordered - ranks).mean()]),
            np.array(["a"]),
            "mean",
            replicates=200,
            rng=rng,
            deviations=deviations[None],
        )
        covered += low <= truth <= high
    assert 360 <= covered <= 397


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (7, 7), (3, 10), (480, 1000)])
def test_wilsons_interval_is_scipys(successes, trials):
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high))
    assert all(math.isnan(end) for end in wilson_interval(0, 0))


def test_newcombes_interval_by_his_table():
    # Newcombe 1998, Table II, method 10: 56/70 - 48/80 and 10/10 - 0/20.
    assert newcombe_interval((56, 48), (70, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe_interval((10, 0), (10, 20)) == pytest.approx((0.6791, 1.0), abs=5e-5)
    assert math.isnan(newcombe_interval((1, 0), (2, 0))[0])


def test_rates_of_clusters_are_covered_where_wilsons_interval_is_too_narrow():
    rng, covered = random_stream(11), {"clustered": 0, "plain": 0}
    for _ in range(400):
        found = rng.binomial(100, rng.beta(6, 2, size=3))
        intervals = {
            "clustered": clustered_wilson_interval(found, np.full(3, 100)),
            "plain": wilson_interval(int(found.sum()), 300),
        }
        for name, (low, high) in intervals.items():
            covered[name] += low <= 0.75 <= high
    assert covered["clustered"] / 400 > 0.93 and covered["plain"] / 400 < 0.6
    assert clustered_wilson_interval(np.array([90]), np.array([100])) == wilson_interval(90, 100)


@pytest.mark.parametrize("statistic", ["family_median", "family_mean"])
def test_draws_of_a_paired_difference_are_those_of_the_tables_figures(statistic):
    rng = random_stream(12)
    families = np.repeat(list("abcdef"), 3)
    level = np.repeat(rng.normal(size=6), 3)
    own, other = level + rng.normal(size=18), level + 0.5 + rng.normal(size=18)
    draws = paired_difference_draws(own, other, families, replicates=20_000, rng=random_stream(13), statistic=statistic)

    def one(rng):
        members = [np.flatnonzero(families == name) for name in rng.choice(list("abcdef"), size=6)]
        picks = np.concatenate([rng.choice(rows, size=3) for rows in members])
        labels = np.repeat(np.arange(6), 3)
        return over_families(own[picks], labels, statistic) - over_families(other[picks], labels, statistic)

    plain = [one(rng) for _ in range(1_500)]
    assert np.percentile(draws, [2.5, 97.5]) == pytest.approx(np.percentile(plain, [2.5, 97.5]), abs=0.12)
    # A difference that is the same at every prompt has no spread, however much the prompts differ.
    same = paired_difference_draws(own, own - 0.25, families, replicates=50, rng=rng)
    assert same == pytest.approx(np.full(50, 0.25))
    models = paired_difference_draws(np.stack([own, own]), np.stack([other, other]), families, replicates=9, rng=rng)
    assert models.shape == (2, 9) and (models[0] == models[1]).all()
