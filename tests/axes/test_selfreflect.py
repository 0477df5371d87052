"""SelfReflect: the distance of two laws against known values, hidden words, summaries, means over questions."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.questions.question import NO_ANSWER
from pipeline.axes.selfreflect.evaluate import FLOORS, STATISTICS, question_table
from pipeline.axes.selfreflect.report import judge_verdict
from pipeline.axes.selfreflect.summaries import (
    BLANK,
    SUMMARIES,
    answer_list,
    listed_and_tested,
    masked_words,
    other_question,
    perfect_summary,
    summary_request,
    tempered_distance,
)
from pipeline.core.statistics.summarise import summarise
from pipeline.engines.judges.word_judge import with_rest

LAW = np.log([0.5, 0.3, 0.2])


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.3), (5.0, 0.0612)])
def test_a_law_against_its_reverse(temperature, expected):
    assert tempered_distance(LAW, LAW[::-1], temperature) == pytest.approx(expected, abs=5e-5)
    assert tempered_distance(LAW, LAW, temperature) == 0
    # Logits need not be normalised, nor finite where an outcome is impossible.
    assert tempered_distance(LAW + 7, LAW[::-1], temperature) == pytest.approx(expected, abs=5e-5)
    assert tempered_distance(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]), temperature) == 1


def test_all_other_words_are_one_outcome():
    law = with_rest(np.log([0.5, 0.3]))
    assert np.exp(law) == pytest.approx([0.5, 0.3, 0.2])
    # A context that leads the judge away from the only word of all answers is told from one that leads to it.
    assert tempered_distance(with_rest(np.log([0.9])), with_rest(np.log([0.1])), 1.0) == pytest.approx(0.8)
    assert np.isfinite(with_rest(np.log([0.7, 0.3 + 1e-9]))).all()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("lion", [("lion", BLANK)]),
        ("The Lord of the Rings!", [("Lord", f"The {BLANK} of the Rings!"), ("Rings", f"The Lord of the {BLANK}!")]),
        ("rock 'n roll, rock", [(word, None) for word in ("rock", "n", "roll", "rock")]),
        ("forget-me-not", [("forget-me-not", BLANK)]),
        # Without content words every word counts; without words there is none.
        ("It is", [("It", f"{BLANK} is"), ("is", f"It {BLANK}")]),
        ("?!", []),
    ],
)
def test_content_words_are_hidden_one_by_one(answer, expected):
    found = masked_words(answer)
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert all(masked.replace(BLANK, word) == answer for word, masked in found)
    assert all(wanted in (None, masked) for (_, masked), (_, wanted) in zip(found, expected, strict=True))


def test_the_list_and_its_counts_in_words():
    answers = ["lion", "owl", "lion", "cat"]
    assert perfect_summary(answers) == "Of 4 answers, 2 are lion, 1 is cat and 1 is owl."
    assert perfect_summary(["owl"]) == "Of 1 answer, 1 is owl."
    assert answer_list(answers).splitlines() == ["- lion", "- owl", "- lion", "- cat"]
    assert answer_list(answers) in summary_request("A pet?", answers)
    assert "lion" not in summary_request("A pet?", None) and "A pet?" in summary_request("A pet?", None)


def test_tested_answers_are_not_in_the_list():
    assert listed_and_tested(["a", None, "b", None, "c"], 3) == (["a", NO_ANSWER], ["b", "c"])


@pytest.mark.parametrize("size", range(2, 8))
def test_no_question_is_its_own_null(size):
    others = [other_question(place, size) for place in range(size)]
    assert sorted(others) == list(range(size)) and all(place != other for place, other in enumerate(others))


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
    reads = pd.concat([table.iloc[[0]].assign(prompt_id=str(n), null=0.6 + n / 50) for n in range(9)])
    reads["told_apart"] = reads["null"] - reads["perfect"]
    both = pd.concat([reads, reads.assign(sampled=reads["sampled"] - 0.1)], keys=["base", "soft"], names=["condition"])
    options = {"floors": FLOORS, "seed": 0, "names": ("x",), "replicates": 100}
    found = summarise(both.reset_index("condition"), STATISTICS, **options)
    (sampled,) = (row for row in found if row["condition"] == "soft" and row["metric"] == "selfreflect_sampled")
    assert sampled["change"] == pytest.approx(-0.1) and sampled["n"] == 9 and sampled["floor"] == 0
    assert verdict_of(reads) == "seeing the answers helps"
    blind = reads.assign(told_apart=np.random.default_rng(0).normal(0, 0.1, size=9))
    assert verdict_of(blind) == "the judge cannot tell perfect from null: no verdict"


def verdict_of(rows):
    found = summarise(rows.assign(condition="base"), STATISTICS, seed=0, names=("x",), replicates=100)
    return judge_verdict({row["metric"]: SimpleNamespace(**row) for row in found}, "base")
