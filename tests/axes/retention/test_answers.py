"""Lengths and derivations of generated answers: what counts as a step, medians of resamples, coverage."""

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.retention.answers import STATISTICS, answer_table, has_derivation
from pipeline.core.statistics.summarise import median_of, summarise


@pytest.mark.parametrize(
    "text",
    [
        "16 - 3 - 4 = 9",
        "She eats 3 and bakes 4, so 16-3-4=<<16-3-4=9>>9 are left.\n#### 18",
        "9 eggs * $2 = $18",
        "9 * 2 = **18**",
        "She makes 9 duck eggs x $2.50 each = $22.50",
        "(20 + 1,214) * 3 = 3,702",
        "Half of that is 2/2=1 bolt.",
        "\\(5 \\times 3 = 15\\)",
        "20% * 50 = 10",
        "5 × 3 = 15, and 15 ÷ 3 = 5",
        "**5 + 3** = **8**",
        "10 − 12 = −2",
    ],
)
def test_derivations(text):
    assert has_derivation(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18",
        "#### 18",
        "The answer is $1,234.",
        "x = 5",
        "The total = 18",
        "18 = 18",
        "She sells 9 eggs at 2 dollars and so makes 18 dollars.",
        "From 10 boxes, 5 are left",
        "16 - 3 - 4",
        "10-12 boxes are left, which makes 3",
        "2024-05-01",
    ],
)
def test_no_derivation(text):
    assert not has_derivation(text)


def test_a_long_answer_takes_no_time():
    # Nested repetitions must not backtrack: a model may well write such a line.
    assert not has_derivation("1 + " * 5000)
    assert not has_derivation("(" * 2000 + "1 a b " * 2000 + " " * 2000)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_medians_of_resamples(size):
    rng = np.random.default_rng(size)
    values = rng.integers(0, 6, size).astype(float)
    counts = rng.multinomial(size, np.full(size, 1 / size), size=50)
    expected = [np.median(np.repeat(values, row)) for row in counts]
    found = median_of("value").function(pd.DataFrame({"value": values}), counts)
    np.testing.assert_array_equal(found, expected)


def table(tokens, ended, derivation):
    return pd.DataFrame({"item": range(len(tokens)), "num_tokens": tokens, "ended": ended, "derivation": derivation})


def by_metric(tables, seed=0, replicates=300):
    """What is said of the last of the conditions."""
    rows = pd.concat([table.assign(condition=name) for name, table in tables.items()])
    found = summarise(rows, STATISTICS, unit="item", seed=seed, names=(), replicates=replicates)
    return {row["metric"]: row for row in found if row["condition"] == list(tables)[-1]}


def test_table_is_in_order_of_items():
    answers = {
        1: {"answer": "1 + 1 = 2", "num_tokens": 9, "finish_reason": "length"},
        0: {"answer": "2", "num_tokens": 2, "finish_reason": "stop"},
    }
    pd.testing.assert_frame_equal(answer_table(answers), table([2, 9], [True, False], [False, True]))


def test_intervals_cover():
    """The mean of lognormal lengths and shares of 0.9 and 0.1, in 95% of 200 draws of 100 items; binomial error 3%."""
    rng, hits, truth = np.random.default_rng(0), {}, np.exp(4 + 0.5**2 / 2)
    for draw in range(200):
        found = table(np.exp(rng.normal(4, 0.5, 100)), rng.random(100) < 0.9, rng.random(100) < 0.1)
        rows = by_metric({"base": found}, seed=draw, replicates=200)
        for (name, row), value in zip(rows.items(), (truth, np.exp(4), 0.9, 0.1), strict=True):
            hits.setdefault(name, []).append(row["ci_low"] <= value <= row["ci_high"])
    assert {name: np.mean(values) for name, values in hits.items()} == pytest.approx(
        dict.fromkeys(hits, 0.95), abs=0.045
    )


def test_a_share_of_all_has_an_interval():
    rows = by_metric({"base": table([3] * 50, [True] * 50, [False] * 50)})
    assert rows["answer_stop_share"]["ci_low"] == pytest.approx(50 / (50 + 1.959964**2), abs=1e-4)
    assert rows["answer_derivation_share"]["ci_high"] > 0.05


def test_changes_are_paired():
    """Every answer ten tokens shorter: no spread in the difference, whatever that of the lengths is."""
    base = table(np.arange(100) * 7, [True] * 100, np.arange(100) < 60)
    own = base.assign(num_tokens=base["num_tokens"] - 10, derivation=np.arange(100) < 40)
    rows = by_metric({"base": base, "soft": own})
    tokens, steps = rows["answer_tokens_mean"], rows["answer_derivation_share"]
    assert (tokens["change"], tokens["change_low"], tokens["change_high"]) == pytest.approx((-10, -10, -10))
    assert steps["change"] == pytest.approx(-0.2) and -0.3 < steps["change_low"] < -0.2 < steps["change_high"] < -0.1
