"""SelfReflect: the distance of two laws against known values, hidden words, summaries, means over questions."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.questions.question import NO_ANSWER
from pipeline.axes.selfreflect.evaluate import STATISTICS, question_table
from pipeline.axes.selfreflect.report import judge_verdict
from pipeline.axes.selfreflect.summaries import (
    BLANK,
    SUMMARIES,
    listed_and_tested,
    masked_words,
    perfect_summary,
    tempered_distance,
)
from pipeline.core.statistics.summarise import summarise
from pipeline.engines.judges.word_judge import with_rest

LAW = np.log([0.5, 0.3, 0.2])


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.3), (5.0, 0.0612)])
def test_a_law_against_its_reverse(temperature, expected):
    assert tempered_distance(LAW, LAW[::-1], temperature) == pytest.approx(expected, abs=5e-5)
    # Logits need not be normalised, nor finite where an outcome is impossible.
    assert tempered_distance(LAW + 7, LAW[::-1], temperature) == pytest.approx(expected, abs=5e-5)
    assert tempered_distance(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]), temperature) == 1


def test_all_other_words_are_one_outcome():
    assert np.exp(with_rest(np.log([0.5, 0.3]))) == pytest.approx([0.5, 0.3, 0.2])
    assert np.isfinite(with_rest(np.log([0.7, 0.3 + 1e-9]))).all()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Lord of the Rings!", [("Lord", f"The {BLANK} of the Rings!"), ("Rings", f"The Lord of the {BLANK}!")]),
        ("forget-me-not", [("forget-me-not", BLANK)]),
        # Without content words every word counts; without words there is none.
        ("It is", [("It", f"{BLANK} is"), ("is", f"It {BLANK}")]),
        ("?!", []),
    ],
)
def test_content_words_are_hidden_one_by_one(answer, expected):
    assert masked_words(answer) == expected


def test_counts_in_words_and_tested_answers_that_are_not_in_the_list():
    assert perfect_summary(["lion", "owl", "lion", "cat"]) == "Of 4 answers, 2 are lion, 1 is cat and 1 is owl."
    assert perfect_summary(["owl"]) == "Of 1 answer, 1 is owl."
    assert listed_and_tested(["a", None, "b", None, "c"], 3) == (["a", NO_ANSWER], ["b", "c"])


def test_means_of_a_question_its_gain_and_whether_the_judge_reads():
    rows = [
        ("p", kind, value)
        for kind, values in zip(SUMMARIES, ((0.1, 0.3), (0.4,), (0.0,), (0.6,)), strict=True)
        for value in values
    ]
    table = question_table(["p", "q"], pd.DataFrame(rows, columns=["prompt_id", "summary", "distance"]))
    assert table.loc[0, list(SUMMARIES)].tolist() == pytest.approx([0.2, 0.4, 0.0, 0.6])
    assert table.loc[0, ["gain", "told_apart"]].tolist() == pytest.approx([0.2, 0.6])
    # A question whose tested answers have no word.
    assert math.isnan(table.loc[1, "sampled"])
    reads = pd.concat([table.iloc[[0]].assign(prompt_id=str(n), told_apart=0.6 + n / 50) for n in range(9)])
    assert verdict_of(reads) == "seeing the answers helps"
    blind = reads.assign(told_apart=np.random.default_rng(0).normal(0, 0.1, size=9))
    assert verdict_of(blind) == "the judge cannot tell perfect from null: no verdict"


def verdict_of(rows):
    found = summarise(rows.assign(condition="base"), STATISTICS, seed=0, names=("x",), replicates=100)
    return judge_verdict({row["metric"]: SimpleNamespace(**row) for row in found}, "base")
