"""Answer-position balance: hand-computed values, the floor against simulation, the interval's coverage."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.mcq.multiple_choice import (
    STATISTICS,
    generation_rows,
    prompt_row,
    total_variation,
    total_variation_floor,
)
from pipeline.core.prompts.multiple_choice import McqFailure
from pipeline.core.statistics.intervals import wilson_interval
from pipeline.core.statistics.summarise import summarise


@pytest.mark.parametrize(
    ("counts", "expected"),
    # Half of |1-1/4| + 3/4; of |.5-.25| * 2 + .25 * 2; of |.1-.25| + |.2-.25| + |.3-.25| + |.4-.25|.
    [([7, 0, 0, 0], 0.75), ([3, 3, 0, 0], 0.5), ([1, 2, 3, 4], 0.2), ([5, 5, 5, 5], 0.0)],
)
def test_total_variation_by_hand(counts, expected):
    assert total_variation(np.array(counts)) == pytest.approx(expected)


def test_floor_of_few_answers():
    assert math.isnan(total_variation_floor(0))
    # One answer: always 3/4. Two: equal with probability 1/4 (3/4), else 1/2. Four: enumerated.
    assert total_variation_floor(1) == pytest.approx(0.75)
    assert total_variation_floor(2) == pytest.approx(0.25 * 0.75 + 0.75 * 0.5)
    draws = np.stack(np.meshgrid(*[np.arange(4)] * 4), axis=-1).reshape(-1, 4)
    exact = np.mean([total_variation(np.bincount(draw, minlength=4)) for draw in draws])
    assert total_variation_floor(4) == pytest.approx(exact)


def summary(outcomes, replicates=200, seed=0):
    """The metrics of one condition's outcomes, by name."""
    table = pd.DataFrame({"prompt_id": "mcq-1", "sample_index": range(len(outcomes)), "outcome": outcomes})
    options = {"unit": "generation", "split": "mcq", "seed": seed, "names": ("mcq", "m"), "replicates": replicates}
    rows = generation_rows(table).assign(condition="base")
    return {
        row["metric"]: row for row in summarise(rows, STATISTICS, floors={"mcq_total_variation": "floor"}, **options)
    }


def interval(counts, replicates, seed):
    letters = [letter for letter, count in zip("ABCD", counts, strict=True) for _ in range(count)]
    row = summary(letters, replicates, seed)["mcq_total_variation"]
    return row["ci_low"], row["ci_high"]


@pytest.mark.parametrize("law", [(0.12, 0.46, 0.34, 0.08), (0.25, 0.25, 0.25, 0.25)])
def test_interval_covers_the_expected_distance(law):
    # At a coverage of .92 or more, 83 or more of 100 intervals hold it with probability above .999.
    rng = np.random.default_rng(5)
    draws = rng.multinomial(300, law, size=20_000)
    expected = (np.abs(draws / 300 - 0.25).sum(axis=1) / 2).mean()
    found = [interval(counts, 400, seed) for seed, counts in enumerate(draws[:100])]
    assert sum(0 <= low <= expected <= high for low, high in found) >= 83


def test_interval_moves_down_by_the_bias_near_the_floor():
    counts = np.array([270, 250, 240, 240])
    low, high = interval(counts, 4000, 2)
    draws = np.random.default_rng(3).multinomial(1000, counts / 1000, size=20_000)
    values = np.abs(draws / 1000 - 0.25).sum(axis=1) / 2
    # The percentile interval itself would lie around the redrawn mean, .029; the estimate is .02.
    assert values.mean() > 0.026
    bias = values.mean() - 0.02
    assert (low, high) == pytest.approx(
        (max(0, np.quantile(values, 0.025) - bias), np.quantile(values, 0.975) - bias), abs=2e-3
    )


OUTCOMES = ["A", "B", "B", "empty", "missing_answer", "missing_answer", "B", "C"]


def test_a_row_of_outcomes():
    row = prompt_row("mcq-1", OUTCOMES)
    assert (row["num_samples"], row["num_parsed"]) == (8, 5)
    assert [row[f"count_{letter}"] for letter in "abcd"] == [1, 3, 1, 0]
    assert row["total_variation"] == pytest.approx(0.6 - 0.25) and row["floor"] == total_variation_floor(5)
    assert row["invalid_missing_answer"] == 2 and row["invalid_empty"] == 1
    assert sum(row[f"invalid_{reason.value}"] for reason in McqFailure) == 3


def test_metrics_by_hand():
    found = summary(OUTCOMES)
    rate, distance = found["mcq_parse_rate"], found["mcq_total_variation"]
    assert (rate["value"], rate["n"], rate["undefined"]) == (5 / 8, 8, 0)
    assert (rate["ci_low"], rate["ci_high"]) == wilson_interval(5, 8)
    assert distance["value"] == pytest.approx(0.35) and (distance["n"], distance["undefined"]) == (5, 0)
    assert distance["floor"] == total_variation_floor(5)
    assert distance["ci_low"] <= 0.35 <= distance["ci_high"]
