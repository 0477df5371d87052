"""Inverse entropy against its algebra: identical answers, equal dispersions, and what an AUROC needs."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.inv_entropy.chains import (
    cosine_similarities,
    dispersion,
    mean_measures,
    measures,
    ngram_counts,
    rise_by_chance,
    rises_with_temperature,
    transitions,
)
from pipeline.axes.inv_entropy.evaluate import statistics_of
from pipeline.core.statistics.summarise import summarise


def equal(size, apart):
    """Similarities of states that are all as far apart."""
    return np.full((size, size), 1 - apart) + apart * np.eye(size)


@pytest.mark.parametrize("seed", range(5))
def test_identical_answers_have_no_excess_whatever_the_requests(seed):
    vectors = np.random.default_rng(seed).normal(size=(7, 4))
    found = measures(cosine_similarities(vectors), np.ones((7, 7)))
    assert abs(found["excess_nats"]) < 1e-12 and found["output_dispersion"] == 0
    # ln(n + 1) is the value only where P_x is doubly stochastic.
    assert abs(found["inv_entropy_nats"] - math.log(7)) > 1e-3


@pytest.mark.parametrize(
    ("apart", "expected"), [(0, 2.3026), (0.25, 2.3181), (0.5, 2.3458), (0.75, 2.4102), (1, 2.7231)]
)
def test_equal_dispersions(apart, expected):
    found = measures(equal(10, 0.3), equal(10, apart))
    assert found["inv_entropy_nats"] == pytest.approx(expected, abs=5e-5)
    assert found["excess_nats"] == pytest.approx(expected - math.log(10), abs=5e-5)


def test_two_clusters_of_answers_and_identical_requests():
    clusters = np.kron(np.eye(2), np.ones((5, 5)))
    assert measures(equal(10, 0.3), clusters)["inv_entropy_nats"] == pytest.approx(2.3553, abs=5e-5)
    # Blind to the answers where all requests are the same; 0 where neither side has any similarity.
    assert measures(np.ones((10, 10)), clusters)["excess_nats"] == pytest.approx(0, abs=1e-12)
    assert measures(np.eye(10), np.eye(10))["inv_entropy_nats"] == 0


def test_similarities_have_room():
    alike = cosine_similarities(ngram_counts(["lion", "lion", "xyzzy"]))
    assert alike[0, 1] == pytest.approx(1) and alike[0, 2] == 0
    assert cosine_similarities(np.array([[1.0, 0], [-1, 0], [0, 0]])).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert dispersion(np.eye(3)) == 1 and dispersion(np.ones((3, 3))) == 0
    assert transitions(equal(3, 0.5)).sum(axis=1) == pytest.approx([1, 1, 1])


def test_draws_take_one_answer_of_each_request():
    similarity = np.eye(4)
    answers = np.array([[0, 0], [1, 1], [2, 3]])
    found = mean_measures(equal(3, 0.3), answers, similarity, draws=50, rng=np.random.default_rng(0))
    once = measures(equal(3, 0.3), np.eye(3))
    assert found["inv_entropy_nats"] == pytest.approx(float(once["inv_entropy_nats"]))
    assert found["output_dispersion"] == 1 and found["input_dispersion"] == pytest.approx(0.3)


def test_rises_by_chance():
    values = np.random.default_rng(0).random((40_000, 3))
    assert rises_with_temperature(values).mean() == pytest.approx(rise_by_chance(3), abs=0.01)
    assert [rise_by_chance(k) for k in (2, 3, 4)] == pytest.approx([0.5, 1 / 6, 1 / 24])
    assert not rises_with_temperature(np.ones((5, 3))).any()
    assert rises_with_temperature(np.array([[0, 1], [1, 0.5], [2, 3], [3, 3]])).tolist() == [True, False, True, False]


def rows_of(excess, right):
    size = len(excess)
    columns = {"excess_nats": excess, "inv_entropy_nats": excess, "input_dispersion": 0.1, "output_dispersion": 0.2}
    names = [str(place) for place in range(size)]
    return pd.DataFrame({**columns, "right": right, "prompt_id": names, "condition": "base"})


def test_no_auroc_of_identical_answers_nor_of_few():
    right = np.repeat([0.0, 1.0], 15)
    tied = rows_of(np.random.default_rng(0).normal(0, 1e-13, size=30), right)
    found = {r["metric"]: r for r in summarise(tied, statistics_of(["a"]), seed=0, names=(), replicates=50)}
    assert math.isnan(found["inv_excess_nats_auroc"]["value"]) and "ties" in found["inv_excess_nats_auroc"]["note"]
    assert "inv_tsu" not in found
    few = rows_of(np.arange(12.0), np.repeat([0.0, 1.0], [3, 9]))
    found = {r["metric"]: r for r in summarise(few, statistics_of(["a"]), seed=0, names=(), replicates=50)}
    assert found["inv_excess_nats_auroc"]["note"] == "9 right and 3 wrong answers; an AUROC needs 10 of each"
    # Wrong answers with the larger excess are told apart.
    apart = rows_of(np.r_[np.ones(15), np.zeros(15)] + np.arange(30) / 1e3, right)
    found = {r["metric"]: r for r in summarise(apart, statistics_of(["a"]), seed=0, names=(), replicates=50)}
    assert found["inv_excess_nats_auroc"]["value"] == 1
