"""The check of seed streams: shared ones are caught, independent ones pass at the stated rate."""

import math

import numpy as np
import pytest

from pipeline.axes.structured.pit import randomised_pit
from pipeline.axes.structured.streams import first_pits, stream_correlation
from pipeline.core.laws.families import get_family
from pipeline.core.laws.quantiles import quantile
from pipeline.core.random_streams import random_stream

NAMES = {
    "gaussian": {"mu": 0.0, "sigma": 1.0},
    "poisson": {"lambda": 4.0},
    "bernoulli": {"p": 0.3},
    "cauchy": {"x0": 0.0, "gamma": 1.0},
}


def sampled_pits(streams, size=60):
    """PITs of inverse-transform samples, one row per law and stream."""
    rows = []
    for number, ((family, parameters), stream) in enumerate(zip(NAMES.items(), streams, strict=True)):
        law = get_family(family).law_at(parameters)
        values = quantile(law, stream.random(size))
        rows.append(randomised_pit(law, values, np.full(size, 5.0), random_stream(9, number)))
    return np.array(rows)


def test_correlation_by_brute_force():
    pits = np.random.default_rng(0).random((4, 7))
    pits[0, 2] = pits[3, 5] = pits[3, 6] = math.nan
    standard = [(row - np.nanmean(row)) / np.nanstd(row) for row in pits]
    products = [
        standard[p][i] * standard[q][i]
        for p in range(4)
        for q in range(p)
        for i in range(7)
        if np.isfinite(pits[p, i]) and np.isfinite(pits[q, i])
    ]
    found = stream_correlation(pits, random_stream(0))
    assert found.correlation == pytest.approx(np.mean(products)) and found.num_pairs == 6


def test_one_stream_for_all_prompts_is_caught():
    # What the public artifact does: the same seed for every prompt.
    found = stream_correlation(sampled_pits([random_stream(1) for _ in NAMES]), random_stream(0))
    assert found.correlation > 0.5 and found.p_value == 0.001
    named = stream_correlation(sampled_pits([random_stream(1, name) for name in NAMES]), random_stream(0))
    assert abs(named.correlation) < 4 * named.standard_error and named.p_value > 0.01


def test_a_stream_shared_by_two_prompts_of_many_is_caught():
    pits = random_stream(2).random((10, 250))
    pits[7] = pits[3]
    found = stream_correlation(pits, random_stream(0))
    # One of 45 pairs has correlation 1; the standard error is 1 / sqrt(45 * 250).
    assert found.correlation == pytest.approx(1 / 45, abs=0.02) and found.p_value < 0.05
    assert np.ptp(found.interval) == pytest.approx(3.92 * found.standard_error)
    assert found.standard_error == pytest.approx(1 / math.sqrt(45 * 250), rel=0.2)


def test_independent_streams_are_rejected_at_the_level():
    # 300 tests at 10%: 30 expected, and within 14 to 48 with probability 0.999.
    rejected = 0
    for k in range(300):
        pits = random_stream(3, k).random((5, 20))
        pits[random_stream(4, k).random((5, 20)) < 0.2] = math.nan
        rejected += stream_correlation(pits, random_stream(5, k), permutations=99).p_value <= 0.1
    assert 14 <= rejected <= 48


@pytest.mark.parametrize(
    "pits", [np.full((3, 4), math.nan), np.array([[0.1, 0.2, 0.9]]), np.array([[0.1, 0.3, math.nan], [math.nan] * 3])]
)
def test_undefined_without_two_prompts(pits):
    found = stream_correlation(pits, random_stream(0))
    assert math.isnan(found.correlation) and math.isnan(found.p_value) and found.num_pairs == 0


def test_shuffles_without_a_pair_do_not_count():
    # Every shuffle with a pair has a correlation of 1 or -1; one in six has none, which is no evidence of anything.
    found = stream_correlation(np.array([[0.1, 0.9, math.nan, math.nan]] * 2), random_stream(1))
    assert found.correlation == pytest.approx(1) and found.p_value == 1
    assert found.standard_error == pytest.approx(1, abs=0.05)


def test_first_answers_of_each_generation():
    # Two generations with answers (valid, invalid) and (invalid, valid); or three.
    valid = np.array([True, False, False, True])
    np.testing.assert_array_equal(first_pits(valid, np.array([0.1, 0.2]), [2, 2]), [0.1, math.nan])
    np.testing.assert_array_equal(first_pits(valid, np.array([0.1, 0.2]), [1, 2, 1]), [0.1, math.nan, 0.2])
