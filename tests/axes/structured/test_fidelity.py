"""All distances of one prompt: against their own functions, repeated sampling, and perfect samplers."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.axes.structured.energy import EnergyReference
from pipeline.axes.structured.fidelity import (
    DISTANCES,
    NUM_HALVES,
    adjusted_p_values,
    evaluate_fidelity,
    histogram_table,
    wasserstein_1_deviations,
)
from pipeline.axes.structured.tails import QUANTILE_ERRORS
from pipeline.axes.structured.wasserstein import evaluate_prompt
from pipeline.core.laws.families import get_family
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream

LAW = get_family("gaussian").law_at({"mu": 0.0, "sigma": 1.0})


def evaluated(values, law=LAW, name=0, invalid=0, floor_replicates=40):
    texts = [f"{value:.6f}" for value in values] + ["x"] * invalid
    prompt = Prompt(f"p{name}", "ood", "gaussian", "", {}, "text", law)
    return evaluate_fidelity(prompt, evaluate_prompt(texts, law), 11, ("m", "base"), floor_replicates)


def test_row_by_scipy():
    values = np.round(random_stream(1).normal(0.2, 1.1, 150), 6)
    found = evaluated(values, invalid=50)
    levels = np.sort(stats.norm.cdf(values))
    row, width = found.row, 2 * stats.norm.ppf(0.95)
    # Six decimals leave 4e-7 of probability open.
    assert row["pit_wasserstein_1"] == pytest.approx(np.abs(levels - (np.arange(150) + 0.5) / 150).mean(), abs=1e-6)
    assert row["pit_wasserstein_1_all_answers"] == pytest.approx(0.75 * row["pit_wasserstein_1"] + 0.25)
    assert row["pit_ks"] == pytest.approx(stats.kstest(values, "norm").statistic, abs=1e-6)
    assert row["pit_ks_p"] == pytest.approx(stats.kstest(values, "norm").pvalue, rel=1e-3)
    # ceil(0.05 * 150) = 8: the eighth smallest.
    assert row["quantile_error_at_0.05"] == pytest.approx(abs(np.sort(values)[7] - stats.norm.ppf(0.05)) / width)
    whole = EnergyReference(LAW).distances(np.sort(values), np.ones((1, 150), dtype=bool))[0]
    assert row["energy_distance_normalised"] == pytest.approx(whole)
    assert set(found.floors) == {*DISTANCES, *QUANTILE_ERRORS} and found.pits.shape == (150,)
    assert {*DISTANCES, *QUANTILE_ERRORS, "pit_chi_square", "pit_chi_square_p"} <= set(row)


def test_standard_errors_are_those_of_repeated_sampling():
    # 300 samples of 80 answers, a fifth of them invalid on average, far enough from the law for a smooth distance.
    rng, metrics, values, errors = random_stream(2), ("wasserstein_1_normalised", *DISTANCES), [], []
    width = 2 * stats.norm.ppf(0.95)
    for k in range(300):
        size = int(rng.binomial(80, 0.8))
        draws = rng.normal(0.7, 0.6, size)
        found = evaluated(draws, name=k, invalid=80 - size, floor_replicates=1)
        ranks = stats.norm.ppf((np.arange(size) + 0.5) / size)
        assert found.row["wasserstein_1_normalised"] == pytest.approx(
            np.abs(np.sort(draws) - ranks).mean() / width, abs=1e-6
        )
        values.append([found.row[metric] for metric in metrics])
        errors.append([found.row[f"{metric}_standard_error"] for metric in metrics])
    # The standard deviation of 300 values is known to 4%, the mean standard error to less.
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(values, axis=0), rtol=0.15)


def test_perfect_answers_score_the_floor():
    metrics, scores, floors = (*DISTANCES, *QUANTILE_ERRORS), [], []
    for k in range(200):
        found = evaluated(random_stream(3, k).normal(size=60), name=k, floor_replicates=5)
        scores.append([found.row[metric] for metric in metrics])
        floors.append([found.floors[metric].mean() for metric in metrics])
    scores, floors = np.array(scores), np.array(floors)
    error = np.sqrt(scores.var(axis=0) / 200 + floors.var(axis=0) / 200)
    assert (np.abs(scores.mean(axis=0) - floors.mean(axis=0)) < 4 * error).all()


def test_floor_of_all_answers_has_as_many_answers():
    few, whole = evaluated(np.linspace(-2, 2, 20), invalid=380), evaluated(np.linspace(-2, 2, 400))
    # Mean |u_(i) - (i - 0.5) / n| falls as 1 / sqrt(n): with 400 answers it is sqrt(20) times smaller than with 20.
    ratio = few.floors["pit_wasserstein_1"].mean() / few.floors["pit_wasserstein_1_all_answers"].mean()
    assert ratio == pytest.approx(math.sqrt(20), rel=0.25)
    np.testing.assert_array_equal(whole.floors["pit_wasserstein_1"], whole.floors["pit_wasserstein_1_all_answers"])


def test_without_a_valid_answer_only_the_joint_distance_is_defined():
    found = evaluated([], invalid=10)
    assert found.row["pit_wasserstein_1_all_answers"] == 1
    others = set(found.row) - {"pit_wasserstein_1_all_answers"}
    assert all(math.isnan(found.row[name]) for name in others) and len(found.pits) == 0
    assert np.isnan(found.floors["pit_ks"]).all() and np.isfinite(found.floors["pit_wasserstein_1_all_answers"]).all()


@pytest.mark.parametrize("valid", [0, 1, 2, 30])
def test_every_prompt_has_the_same_deviations_however_few_its_valid_answers(valid):
    found = evaluated(random_stream(8).normal(size=valid), invalid=3, floor_replicates=2)
    assert set(found.deviations) >= {
        *DISTANCES,
        *QUANTILE_ERRORS,
        "wasserstein_1_normalised",
        "wasserstein_1_window_normalised",
    }
    assert all(values.shape == (NUM_HALVES,) for values in found.deviations.values())
    assert found.deviations["wasserstein_1_normalised"].any() == (valid > 1)


def test_deviations_of_w1_by_hand():
    # By hand: halves of {0, 1} are one value; W1 of x from the median 0 is x, so half the halves are 1 above 0.
    halves = wasserstein_1_deviations(np.array([0.0, 1.0]), LAW, random_stream(10))
    assert len(np.unique(halves)) == 2 and np.ptp(halves) == pytest.approx(0.5 / stats.norm.ppf(0.95))
    assert not wasserstein_1_deviations(np.array([0.0]), LAW, random_stream(10)).any()


def test_laws_without_width_and_without_a_mean():
    point = evaluated([0] * 12, get_family("bernoulli").law_at({"p": 0.01}))
    assert math.isnan(point.row["energy_distance_normalised"]) and point.row["pit_wasserstein_1"] < 0.5
    cauchy = get_family("cauchy").law_at({"x0": 0.0, "gamma": 1.0})
    heavy = evaluated([-1e9, 0.0, 1.0, 1e12], cauchy)
    assert all(math.isfinite(heavy.row[metric]) for metric in (*DISTANCES, *QUANTILE_ERRORS))
    assert all(values.shape == (NUM_HALVES,) for values in heavy.deviations.values())


def test_the_interval_of_w1_contains_it_and_narrows():
    samples = random_stream(2).normal(0.5, 1.0, 2000)
    widths = []
    for part in (samples[:100], samples):
        row = evaluated(part, floor_replicates=2).row
        low, value, high = (row[f"wasserstein_1_normalised{end}"] for end in ("_ci_low", "", "_ci_high"))
        assert low < value < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3
    assert math.isnan(evaluated([0.3]).row["wasserstein_1_normalised_ci_low"])


def test_histogram_table():
    table = histogram_table({"a": np.array([0.01, 0.02, 0.99]), "b": np.array([])})
    assert table.columns.tolist() == ["prompt_id", "bin", "count", "expected"] and len(table) == 40
    own = table[table["prompt_id"] == "a"]
    assert own["bin"].tolist() == list(range(20)) and own["count"].tolist() == [2, *[0] * 18, 1]
    assert own["expected"].unique().tolist() == [3 / 20] and table["count"].sum() == 3


def test_p_values_are_adjusted_within_a_split():
    table = pd.DataFrame(
        {
            "split": ["a", "b", "a", "a"],
            "pit_ks_p": [0.01, 0.04, 0.02, 0.5],
            "pit_chi_square_p": [0.2, 0.1, math.nan, 1],
        }
    )
    adjusted = adjusted_p_values(table)
    # Holm over three: 0.01 * 3, max(0.02 * 2, 0.03), 0.5; alone: unchanged.
    assert adjusted["pit_ks_p_adjusted"].tolist() == pytest.approx([0.03, 0.04, 0.04, 0.5])
    np.testing.assert_allclose(adjusted["pit_chi_square_p_adjusted"], [0.6, 0.1, math.nan, 1])
