"""Equal token budgets: which answers fit, and what they come to."""

import math

import numpy as np
import pytest

from pipeline.axes.structured.budget import generations_within, within_budget
from pipeline.axes.structured.wasserstein import evaluate_prompt
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import make_prompt

PROMPT = make_prompt("uniform", {"a": 0.0, "b": 1.0}, "ood")


@pytest.mark.parametrize(("budget", "count"), [(1, 0), (3, 1), (7, 1), (8, 2), (9, 2), (10, 3), (99, 3)])
def test_the_first_generations_that_fit(budget, count):
    assert generations_within(np.array([3, 5, 2]), budget) == count


def test_only_what_fits_is_measured():
    answers = [["0.1", "0.9"], [Invalid.EMPTY, "0.5"], ["0.5", "0.5"]]
    row, within = within_budget(PROMPT, answers, np.array([10, 10, 10]), 25)
    assert row["answers_at_budget"] == 4 and row["num_valid_at_budget"] == 3
    assert row["valid_rate_at_budget"] == 0.75
    expected = evaluate_prompt(["0.1", "0.9", "0.5"], PROMPT.law).wasserstein_1_normalised
    assert row["wasserstein_1_normalised_at_budget"] == expected
    assert row["num_tokens"] == 30 and within.samples.tolist() == [0.1, 0.9, 0.5]


def test_nothing_fits():
    row, within = within_budget(PROMPT, [["x"]], np.array([10]), 5)
    assert row["answers_at_budget"] == 0 and math.isnan(row["wasserstein_1_normalised_at_budget"])
    assert math.isnan(row["valid_rate_at_budget"]) and within.num_samples == 0
