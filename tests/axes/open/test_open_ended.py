"""First-step support, rows by prompt and the metrics over them."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.open.evaluate import OF_ANSWERS, open_row, read_closed_lists
from pipeline.axes.open.open_ended import law_entropy, leading_tokens, support_size
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.open_ended import OPEN_CATEGORIES
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.statistics.summarise import summarise
from tests.conftest import ROOT

WEIGHTS = st.lists(st.floats(1e-6, 1), min_size=1, max_size=60)
MASSES = (0.05, 0.5, 0.51, 0.75, 0.875, 0.9, 0.999)


def test_support_sizes_by_hand():
    probabilities = np.array([0.125, 0.5, 0.125, 0.25], dtype=np.float32)
    assert [support_size(probabilities, mass) for mass in MASSES] == [1, 1, 2, 2, 3, 4, 4]
    # 2 ** -10 is exact, so the size is the ceiling of mass * 1024.
    uniform = np.full(1024, 2.0**-10, dtype=np.float32)
    assert [support_size(uniform, mass) for mass in MASSES] == [math.ceil(mass * 1024) for mass in MASSES]


@pytest.mark.parametrize("probabilities", [[], [0.5, 0.4], [math.nan, 0.5]])
def test_a_support_size_needs_the_mass(probabilities):
    with pytest.raises(ValueError, match="less than 0.95"):
        support_size(np.array(probabilities), 0.95)


@given(WEIGHTS)
def test_leading_tokens_hold_every_support_size(weights):
    law = np.log(np.array(weights) / np.sum(weights)).astype(np.float32)
    tokens, probabilities = leading_tokens(law)
    assert tokens.dtype == np.int32 and probabilities.dtype == np.float32
    assert len(set(tokens.tolist())) == len(tokens) and (np.diff(probabilities) <= 0).all()
    np.testing.assert_allclose(probabilities, np.exp(law[tokens]), rtol=1e-6)
    everything = np.exp(law.astype(np.float64)).astype(np.float32)
    for mass in MASSES:
        assert support_size(probabilities, mass) == support_size(everything, mass)
    assert len(tokens) == support_size(everything, 0.9995)


def test_law_entropy():
    assert law_entropy(np.log(np.array([0.5, 0.25, 0.25]))) == pytest.approx(1.5 * math.log(2))
    assert law_entropy(np.array([0.0, -math.inf], dtype=np.float32)) == 0


def test_metrics_by_hand():
    answers = (["a", "a", "b", "c"], ["a"] * 4, [Invalid.EMPTY] * 4)
    prompts = [TextPrompt(f"p{place}", "open", "letter", "x") for place in range(3)]
    table = pd.DataFrame([open_row(prompt, found, 4) for prompt, found in zip(prompts, answers, strict=True)])
    found = summarise(table.assign(condition="base"), OF_ANSWERS, seed=0, names=("open", "m"), replicates=200)
    rows = {row["metric"]: row for row in found}
    unique = rows["unique_fraction"]
    assert unique["value"] == pytest.approx((3 / 4 + 1 / 4 + 0) / 3) and (unique["n"], unique["undefined"]) == (3, 0)
    # Of a mean over three prompts: some resample holds the smallest or the largest value alone.
    assert (unique["ci_low"], unique["ci_high"]) == pytest.approx((0, 0.75), abs=0.1)
    assert rows["valid_rate"]["value"] == pytest.approx(2 / 3)


def test_members_of_a_closed_list_are_counted_by_any_of_their_names():
    lists = read_closed_lists(ROOT / "data/closed_lists.yaml")
    sizes = {"country": 195, "chemical element": 118, "constellation": 88, "US state": 50, "vitamin": 13, "month": 12}
    assert {name: len(set(lists[name].values())) for name in sizes} == sizes and set(lists) <= set(OPEN_CATEGORIES)
    answers = ["USA", "united states.", "Chad", "Atlantis", Invalid.EMPTY]
    row = open_row(TextPrompt("c", "open", "country", "Name a random country."), answers, 5, lists["country"])
    assert (row["listed_distinct"], row["listed_fraction"], row["unique_fraction"]) == (2, 3 / 5, 4 / 5)
