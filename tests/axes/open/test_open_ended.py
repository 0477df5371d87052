"""First-step support, rows by prompt and the metrics over them."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.open.open_ended import (
    ANSWER_STATISTICS,
    LAW_STATISTICS,
    SUPPORT_THRESHOLDS,
    law_entropy,
    law_row,
    leading_tokens,
    open_row,
    support_sizes,
    support_table,
)
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.statistics.summarise import summarise

PROMPT = TextPrompt("open-city-0", "open", "city", "Name a random city. Output ONLY the answer.")
WEIGHTS = st.lists(st.floats(1e-6, 1), min_size=1, max_size=60)


def law_of(weights):
    return np.log(np.array(weights) / np.sum(weights)).astype(np.float32)


def test_support_sizes_by_hand():
    probabilities = np.array([0.125, 0.5, 0.125, 0.25], dtype=np.float32)
    assert support_sizes(probabilities, [0.05, 0.5, 0.51, 0.75, 0.875, 0.9, 0.999]).tolist() == [1, 1, 2, 2, 3, 4, 4]
    assert support_sizes(np.array([1.0]), SUPPORT_THRESHOLDS).tolist() == [1] * 21


def test_support_sizes_of_a_uniform_law():
    # 2 ** -10 is exact, so the size is the ceiling of threshold * 1024.
    sizes = support_sizes(np.full(1024, 2.0**-10, dtype=np.float32), SUPPORT_THRESHOLDS)
    assert sizes.tolist() == [math.ceil(threshold * 1024) for threshold in SUPPORT_THRESHOLDS]


@given(WEIGHTS)
def test_support_sizes_equal_the_obvious_loop(weights):
    probabilities = np.exp(law_of(weights))
    sizes = support_sizes(np.random.default_rng(0).permutation(probabilities), SUPPORT_THRESHOLDS)
    for threshold, size in zip(SUPPORT_THRESHOLDS, sizes, strict=True):
        total, needed = 0.0, 0
        for probability in sorted(probabilities.tolist(), reverse=True):
            total, needed = total + probability, needed + 1
            if total >= threshold:
                break
        assert size == needed
    assert sizes.tolist() == sorted(sizes)


@pytest.mark.parametrize("probabilities", [[], [0.5, 0.4], [math.nan, 0.5]])
def test_support_sizes_need_the_mass(probabilities):
    with pytest.raises(ValueError, match="less than the threshold 0.95"):
        support_sizes(np.array(probabilities), [0.9, 0.95])


@given(WEIGHTS)
def test_leading_tokens_hold_every_support_size(weights):
    law = law_of(weights)
    tokens, probabilities = leading_tokens(law)
    assert tokens.dtype == np.int32 and probabilities.dtype == np.float32
    assert len(set(tokens.tolist())) == len(tokens) and (np.diff(probabilities) <= 0).all()
    np.testing.assert_allclose(probabilities, np.exp(law[tokens]), rtol=1e-6)
    everything = np.exp(law.astype(np.float64)).astype(np.float32)
    expected = support_sizes(everything, SUPPORT_THRESHOLDS)
    assert support_sizes(probabilities, SUPPORT_THRESHOLDS).tolist() == expected.tolist()
    assert len(tokens) == support_sizes(everything, [0.9995])[0]


def test_law_entropy():
    assert law_entropy(np.log(np.array([0.5, 0.25, 0.25]))) == pytest.approx(1.5 * math.log(2))
    assert law_entropy(np.array([0.0, -math.inf], dtype=np.float32)) == 0


def test_row_by_hand():
    answers = ["Paris", "paris", "Rome", "Paris", Invalid.EMPTY, Invalid.UNCLOSED_REASONING, Invalid.EMPTY, "ROME"]
    row = open_row(PROMPT, answers, 3, 100)
    assert (row["num_samples"], row["num_valid"], row["num_truncated"], row["valid_rate"]) == (8, 5, 3, 5 / 8)
    assert (row["num_distinct"], row["unique_fraction"]) == (4, 4 / 8)
    assert (row["num_distinct_case_folded"], row["unique_fraction_case_folded"]) == (2, 2 / 8)
    # Folded counts 3 and 2: see test_diversity.
    assert row["answer_entropy_nats_case_folded"] == pytest.approx(47 / 60)
    assert row["effective_answers_plug_in"] == pytest.approx(math.exp(0.4 * math.log(2.5) + 0.6 * math.log(5)))
    assert row["invalid_empty"] == 2 and row["invalid_unclosed_reasoning"] == 1 and row["invalid_no_answer"] == 0


@given(st.lists(st.sampled_from([*Invalid, "a", "A", "ß", "SS", "b"]), min_size=1, max_size=40))
def test_row_invariants(answers):
    row = open_row(PROMPT, answers, 0, 1000)
    assert row["num_valid"] + sum(row[f"invalid_{reason.value}"] for reason in Invalid) == row["num_samples"]
    assert row["num_distinct_case_folded"] <= row["num_distinct"] <= row["num_valid"]
    assert row["unique_fraction"] * row["num_samples"] == pytest.approx(row["num_distinct"])
    assert math.isnan(row["answer_entropy_nats"]) == (row["num_valid"] < 2)
    if row["num_valid"]:
        folded, raw = row["effective_answers_plug_in_case_folded"], row["effective_answers_plug_in"]
        assert 1 <= folded <= raw + 1e-9 <= row["num_distinct"] + 2e-9


def summarised(answers, sizes=None):
    """Rows of metrics by name, of prompts with these answers and uniform first-step laws of these sizes, if any."""
    rows = []
    for place, found in enumerate(answers):
        row = open_row(TextPrompt(f"p{place}", "open", "letter", "x"), found, 0, 4)
        law = law_row(np.full(sizes[place], 1 / sizes[place]), float(place)) if sizes else {}
        rows.append({**row, **law, "condition": "base"})
    statistics = {**ANSWER_STATISTICS, **(LAW_STATISTICS if sizes else {})}
    found = summarise(pd.DataFrame(rows), statistics, seed=0, names=("open", "m"), replicates=200)
    assert len(found) == len(statistics)
    return {row["metric"]: row for row in found}


def test_metrics_by_hand():
    rows = summarised((["a", "a", "b", "c"], ["a"] * 4, [Invalid.EMPTY] * 4), sizes=(8, 32, 128))
    unique = rows["unique_fraction"]
    assert unique["value"] == pytest.approx((3 / 4 + 1 / 4 + 0) / 3) and (unique["n"], unique["undefined"]) == (3, 0)
    # Of a mean over three prompts: some resample holds the smallest or the largest value alone.
    assert (unique["ci_low"], unique["ci_high"]) == pytest.approx((0, 0.75), abs=0.1)
    assert rows["top_p_support_size"]["value"] == (8 + 29 + 116) / 3
    # Counts 2, 1, 1 and 4: the latter has one effective answer.
    corrected = open_row(PROMPT, ["a", "a", "b", "c"], 0, 4)["effective_answers"]
    assert rows["effective_answers_median"]["value"] == pytest.approx((corrected + 1) / 2)
    assert rows["effective_answers_case_folded_median"]["undefined"] == 1
    assert rows["valid_rate"]["value"] == pytest.approx(2 / 3)
    assert all(row["family"] == "" and math.isnan(row["floor"]) for row in rows.values())


def test_support_table():
    laws = [law_row(np.full(size, 1 / size), 0.0) for size in (1, 1024)]
    table = support_table(pd.DataFrame(laws).assign(prompt_id=["a", "b"]))
    assert list(table.columns) == ["prompt_id", "threshold", "support_size"]
    of_b = table[table["prompt_id"] == "b"]
    assert of_b["threshold"].tolist() == list(SUPPORT_THRESHOLDS)
    assert of_b["support_size"].tolist() == [math.ceil(threshold * 1024) for threshold in SUPPORT_THRESHOLDS]
    assert (table.loc[table["prompt_id"] == "a", "support_size"] == 1).all()
