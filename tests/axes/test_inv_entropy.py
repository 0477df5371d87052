"""Inv-Entropy against its algebra: identical answers, equal dispersions, and what an AUROC needs."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.inv_entropy.evaluate import STATISTICS, dispersion, inverse_entropy, mean_measures, similarities
from pipeline.core.statistics.summarise import summarise


def equal(size, apart):
    """Similarities of states that are all as far apart."""
    return np.full((size, size), 1 - apart) + apart * np.eye(size)


def test_identical_answers_have_no_excess_whatever_the_requests():
    found, excess = inverse_entropy(similarities(["Name a pet.", "A pet?", "Tell me a pet", "x"]), np.ones((4, 4)))
    assert abs(excess) < 1e-12
    # ln(n + 1) is the value only where P_x is doubly stochastic.
    assert abs(found - math.log(4)) > 1e-6


@pytest.mark.parametrize(
    ("apart", "expected"), [(0, 2.3026), (0.25, 2.3181), (0.5, 2.3458), (0.75, 2.4102), (1, 2.7231)]
)
def test_equal_dispersions(apart, expected):
    found = inverse_entropy(equal(10, 0.3), equal(10, apart))
    assert found == pytest.approx((expected, expected - math.log(10)), abs=5e-5)


def test_two_clusters_of_answers_and_identical_requests():
    clusters = np.kron(np.eye(2), np.ones((5, 5)))
    assert inverse_entropy(equal(10, 0.3), clusters)[0] == pytest.approx(2.3553, abs=5e-5)
    # Blind to the answers where all requests are the same; 0 where neither side has any similarity.
    assert inverse_entropy(np.ones((10, 10)), clusters)[1] == pytest.approx(0, abs=1e-12)
    assert inverse_entropy(np.eye(10), np.eye(10))[0] == 0


def test_similarities_have_room():
    alike = similarities(["lion", "lion", "xyzzy", ""])
    assert alike[0, 1] == pytest.approx(1) and alike[0, 2] == alike[0, 3] == 0 and (np.diag(alike) == 1).all()
    assert dispersion(np.eye(3)) == 1 and dispersion(np.ones((3, 3))) == 0


def test_draws_take_one_answer_of_each_request():
    answers = np.array([[0, 0], [1, 1], [2, 3]])
    found = mean_measures(equal(3, 0.3), answers, np.eye(4), draws=50, rng=np.random.default_rng(0))
    assert found["excess_nats"] == pytest.approx(float(inverse_entropy(equal(3, 0.3), np.eye(3))[1]))
    assert found["output_dispersion"] == 1 and found["input_dispersion"] == pytest.approx(0.3)


def summary(excess, right):
    columns = {"excess_nats": excess, "input_dispersion": 0.1, "output_dispersion": 0.2, "right": right}
    rows = pd.DataFrame({**columns, "prompt_id": [str(place) for place in range(len(excess))], "condition": "base"})
    return {row["metric"]: row for row in summarise(rows, STATISTICS, seed=0, names=(), replicates=50)}


def test_no_auroc_of_identical_answers_nor_of_few():
    right = np.repeat([0.0, 1.0], 15)
    tied = summary(np.random.default_rng(0).normal(0, 1e-13, size=30), right)["inv_excess_nats_auroc"]
    assert math.isnan(tied["value"]) and "ties" in tied["note"]
    few = summary(np.arange(12.0), np.repeat([0.0, 1.0], [3, 9]))["inv_excess_nats_auroc"]
    assert few["note"] == "9 right and 3 wrong answers; an AUROC needs 10 of each"
    # Wrong answers with the larger excess are told apart.
    apart = summary(np.r_[np.ones(15), np.zeros(15)] + np.arange(30) / 1e3, right)
    assert apart["inv_excess_nats_auroc"]["value"] == 1
