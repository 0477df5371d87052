"""All distances of one prompt: against SciPy, repeated sampling, and perfect samplers."""

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.axes.structured.aggregate import DISTANCES
from pipeline.axes.structured.fidelity import evaluate_fidelity, wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import evaluate_prompt
from pipeline.core.laws.families import get_family
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream

LAW = get_family("gaussian").law_at({"mu": 0.0, "sigma": 1.0})


def evaluated(values, law=LAW, name=0, invalid=0, floor_replicates=40):
    texts = [f"{value:.6f}" for value in values] + ["x"] * invalid
    prompt = Prompt(f"p{name}", "ood", "gaussian", "", {}, "text", law)
    return evaluate_fidelity(prompt, evaluate_prompt(texts, law), 11, ("m", "base"), floor_replicates)[0]


def test_row_by_scipy():
    values = np.round(random_stream(1).normal(0.2, 1.1, 150), 6)
    found = evaluated(values, invalid=50)
    levels, row = np.sort(stats.norm.cdf(values)), found
    # Six decimals leave 4e-7 of probability open.
    assert row["pit_wasserstein_1"] == pytest.approx(np.abs(levels - (np.arange(150) + 0.5) / 150).mean(), abs=1e-6)
    assert row["pit_wasserstein_1_all_answers"] == pytest.approx(0.75 * row["pit_wasserstein_1"] + 0.25)
    assert row["floor"] == pytest.approx(found["wasserstein_1_normalised floors"].mean())
    assert row["num_samples"] == 200 and row["num_valid"] == 150 and row["invalid_not_a_number"] == 50


def test_deviations_vary_as_repeated_sampling_does():
    # 300 samples of 80 answers, a fifth of them invalid on average, far enough from the law for a smooth distance.
    rng, values, errors = random_stream(2), [], []
    width = 2 * stats.norm.ppf(0.95)
    for k in range(300):
        size = int(rng.binomial(80, 0.8))
        draws = rng.normal(0.7, 0.6, size)
        found = evaluated(draws, name=k, invalid=80 - size, floor_replicates=1)
        ranks = stats.norm.ppf((np.arange(size) + 0.5) / size)
        assert found["wasserstein_1_normalised"] == pytest.approx(
            np.abs(np.sort(draws) - ranks).mean() / width, abs=1e-6
        )
        values.append([found[metric] for metric in DISTANCES])
        errors.append([found[f"{metric} deviations"].std(ddof=1) for metric in DISTANCES])
    # The standard deviation of 300 values is known to 4%, the mean standard error to less.
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(values, axis=0), rtol=0.15)


def test_perfect_answers_score_the_floor():
    scores, floors = [], []
    for k in range(200):
        found = evaluated(random_stream(3, k).normal(size=60), name=k, floor_replicates=5)
        scores.append([found[metric] for metric in DISTANCES])
        floors.append([found[f"{metric} floors"].mean() for metric in DISTANCES])
    scores, floors = np.array(scores), np.array(floors)
    error = np.sqrt(scores.var(axis=0) / 200 + floors.var(axis=0) / 200)
    assert (np.abs(scores.mean(axis=0) - floors.mean(axis=0)) < 4 * error).all()


def test_floor_of_all_answers_has_as_many_answers():
    few, whole = evaluated(np.linspace(-2, 2, 20), invalid=380), evaluated(np.linspace(-2, 2, 400))
    # Mean |u_(i) - (i - 0.5) / n| falls as 1 / sqrt(n): with 400 answers it is sqrt(20) times smaller than with 20.
    ratio = few["pit_wasserstein_1 floors"].mean() / few["pit_wasserstein_1_all_answers floors"].mean()
    assert ratio == pytest.approx(math.sqrt(20), rel=0.25)
    np.testing.assert_array_equal(whole["pit_wasserstein_1 floors"], whole["pit_wasserstein_1_all_answers floors"])


def test_without_a_valid_answer_only_the_joint_distance_is_defined():
    found = evaluated([], invalid=10)
    assert found["pit_wasserstein_1_all_answers"] == 1
    defined = {name for name in DISTANCES if np.isfinite([found[name], found[f"{name} floors"].mean()]).all()}
    assert defined == {"pit_wasserstein_1_all_answers"}


def test_deviations_of_w1_by_hand():
    # By hand: halves of {0, 1} are one value; W1 of x from the median 0 is x, so half the halves are 1 above 0.
    halves = wasserstein_1_deviations(np.array([0.0, 1.0]), LAW, random_stream(10))
    assert len(np.unique(halves)) == 2 and np.ptp(halves) == pytest.approx(0.5 / stats.norm.ppf(0.95))
    assert not wasserstein_1_deviations(np.array([0.0]), LAW, random_stream(10)).any()


def test_laws_without_width_and_without_a_mean():
    point = evaluated([0] * 12, get_family("bernoulli").law_at({"p": 0.01}))
    assert math.isnan(point["wasserstein_1_normalised"]) and point["pit_wasserstein_1"] < 0.5
    heavy = evaluated([-1e9, 0.0, 1.0, 1e12], get_family("cauchy").law_at({"x0": 0.0, "gamma": 1.0}))
    assert all(math.isfinite(heavy[metric]) for metric in DISTANCES)
