"""People against people: known worlds, and what a split may know."""

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.credal.evaluate import coverage_row
from pipeline.axes.human.evaluate import FLOORS, STATISTICS, agreement, question_row
from pipeline.axes.questions.people import people_splits, split_people
from pipeline.axes.questions.question import NO_ANSWER, OTHER, HumanClass, Question, normalise
from pipeline.core.statistics.summarise import summarise
from tests.axes.worlds import people_question

PETS = Question(
    "pets",
    "A pet?",
    options=("dog", "owl"),
    human=(HumanClass("dog", {"dog": 5, "puppy": 1}), HumanClass("cat", {"cat": 3})),
    num_people=10,
)


def human_rows(questions, answers, number=40):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {
                "prompt_id": question.prompt_id,
                "condition": "base",
                **question_row(people_splits(question, len(own), seed=0, number=number), own, rng),
            }
            for question, own in zip(questions, answers, strict=True)
        ]
    )


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    questions, others = zip(*(people_question(rng, 80, f"q{place}") for place in range(150)), strict=True)
    return questions, [[normalise(text) for text in own[:20]] for own in others]


def test_other_people_are_within_the_band_and_at_the_floor(world):
    rows = human_rows(*world)
    assert rows["within_band"].mean() >= 0.9
    assert rows["tv"].mean() == pytest.approx(rows["people_tv"].mean(), abs=0.02)
    found = {row["metric"]: row for row in summarise(rows, STATISTICS, floors=FLOORS, seed=0, names=(), replicates=200)}
    assert found["human_tv"]["floor"] == pytest.approx(rows["people_tv"].mean())
    assert found["human_tv"]["ci_low"] < found["human_tv"]["floor"] < found["human_tv"]["ci_high"]
    # Label redraws would say half of that: the new spellings of other people are in no class.
    assert rows["people_tv"].mean() > 0.3


def test_a_model_of_one_answer_is_far_from_people(world):
    questions, _ = world
    rows = human_rows(questions[:40], [["class 0"] * 20] * 40)
    assert rows["within_band"].mean() < 0.4 and rows["tv"].mean() > rows["people_tv"].mean() + 0.2


def test_two_samples_of_people_s_own_law_cover_a_third(world):
    questions, answers = world
    rng = np.random.default_rng(2)
    covered = []
    for question, own in zip(questions[:80], answers, strict=False):
        splits = people_splits(question, 10, seed=0, number=30, samples=2)
        covered.append(coverage_row(splits, [own[:10], own[10:]], rng)["covered"])
        far = coverage_row(splits, [["class 0"] * 10] * 2, rng)
        assert far["distance"] > far["people_distance"] or far["covered"]
    assert np.mean(covered) >= 0.9


def test_a_split_knows_the_people_asked_and_nothing_of_the_others():
    rng = np.random.default_rng(0)
    for _ in range(50):
        split = split_people(PETS, 4, rng)
        (held_out,) = split.held_out
        assert len(held_out) == 4 and sum(split.law.values()) == pytest.approx(1)
        asked = 10 - len(held_out)
        assert all(share * asked == pytest.approx(round(share * asked)) for share in split.law.values())
        known = split.table.get("puppy") == "dog"
        # One person said puppy: held out, the spelling is in no class.
        assert known == ("puppy" not in held_out)
        assert split.classes(["puppy", None, "fish"]) == ["dog" if known else OTHER, NO_ANSWER, OTHER]
        assert split.classes(["fish"], pooled=False) == [f"{OTHER} fish"]
        # Letters are spellings before anybody answers.
        assert split.classes(["b"]) == [OTHER] and split.table["a"] == "dog"


def test_at_most_half_of_the_people_are_held_out():
    rng = np.random.default_rng(0)
    assert [len(own) for own in split_people(PETS, 50, rng).held_out] == [5]
    several = split_people(PETS, 2, rng, samples=2).held_out
    assert [len(own) for own in several] == [2, 2]
    # More samples than half of the people make: each is drawn from that half.
    assert [len(own) for own in split_people(PETS, 4, rng, samples=3).held_out] == [4, 4, 4]


def test_agreement_by_hand():
    assert agreement({"a": 0.5, "b": 0.5}, ["a", "a", OTHER, NO_ANSWER]).tolist() == [0.5, 0.5]
