"""Classes of answers: each rule, that they do not depend on order, and what is wrong with a question."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.axes.questions.question import (
    NO_ANSWER,
    OTHER,
    HumanClass,
    Question,
    classify,
    known_classes,
    normalise,
    question_problem,
    right_label,
)

PETS = Question(
    "pets",
    "Name a pet.",
    gold=("Hound",),
    human=(HumanClass("dog", {"dog": 40, "the hound": 4, "puppy": 6}), HumanClass("cat", {"cat": 20, "kitten": 10})),
    num_people=100,
)


def test_normalisation_keeps_what_tells_answers_apart():
    assert normalise("  The  Hound! ") == normalise("hound") == "hound"
    assert normalise("A") == "a" and normalise("a an") == "a an"
    assert normalise("Zürich") == "zürich" and normalise("co-op") == "co op"
    assert normalise("...") == ""


def test_spellings_find_their_class():
    answers = ["dog", "Dog.", "Puppy", "the kitten", "fish", "Fish", None, "?!"]
    assert classify(answers, PETS) == ["dog", "dog", "dog", "cat", "fish", "fish", NO_ANSWER, NO_ANSWER]


def test_the_right_class_is_people_s_where_an_accepted_answer_is_in_one():
    assert right_label(PETS) == "dog" and "Hound" in known_classes(PETS)["dog"]
    assert right_label(dataclasses.replace(PETS, gold=("Hamster", "gerbil"))) == "Hamster"
    assert right_label(dataclasses.replace(PETS, gold=())) is None
    free = Question("p", "Capital of France?", options=("Paris", "Rome"), gold=("paris",))
    assert set(known_classes(free)) == {"paris", "Rome"}


def test_a_letter_is_a_spelling_of_its_option():
    pets = dataclasses.replace(PETS, options=("owl", "dog", "cat"))
    answers = ["B", "B.", "(B)", "B. dog", "dog", "A", "A. owl", "owl", "C"]
    assert classify(answers, pets) == ["dog"] * 5 + ["owl"] * 3 + ["cat"]
    # An open question has no letters.
    assert "dog" not in classify(["B", "(B)"], PETS)


@given(st.lists(st.text(alphabet="aAbB .,!1the", max_size=8), max_size=12))
def test_equal_texts_are_in_one_class_whatever_their_order(answers):
    labels = classify(answers, PETS)
    assert len(set(zip(answers, labels, strict=True))) == len(set(answers))
    assert classify(answers[::-1], PETS) == labels[::-1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gold": (), "human": ()}, "needs accepted answers (gold) or people's answers (human)"),
        ({"human": (HumanClass("dog", {"dog": 1, "puppy": 0}),)}, "'dog' has 0 people who answered 'puppy'"),
        ({"num_people": 60}, "have 80 answers of people, more than the 60 people asked"),
        (
            {"human": (HumanClass("dog", {"dog": 5}), HumanClass("cat", {"cat": 4, "Dog!": 1}))},
            "'dog' and 'cat' both have the spelling 'dog'",
        ),
        ({"human": (HumanClass("dog", {"dog": 5}), HumanClass("dog", {"cat": 5}))}, "label 'dog' is there twice"),
        ({"human": (HumanClass(OTHER, {"x": 5}),)}, "a class needs a label other than"),
        ({"human": (HumanClass("dog", {"dog": 1}),), "num_people": 1}, "one person's answer cannot be held out"),
        ({"gold": ("dog", "cat")}, "are in several classes of people's answers"),
        ({"gold": ("?",)}, "'?' has no letter or digit"),
    ],
)
def test_what_is_wrong_with_a_question_is_one_sentence(change, problem):
    assert question_problem(PETS) is None
    assert problem in question_problem(dataclasses.replace(PETS, **change))
