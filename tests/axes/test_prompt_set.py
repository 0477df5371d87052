"""Prompt sets: every format, and what is wrong in one sentence."""

import json
from collections import Counter

import pytest

from pipeline.artifacts.prompts import read_requests
from pipeline.axes.questions.prompt_set import prompt_set
from pipeline.axes.questions.question import (
    OTHER,
    classify,
    people_answers,
    read_questions,
    right_label,
    write_questions,
)
from pipeline.config.prompts import QuestionsConfig
from pipeline.errors import ArtifactError, ConfigError
from scripts.make_questions import facts as made_facts
from scripts.make_questions import questions as made_questions
from tests.conftest import ROOT


def people_counts(question):
    return dict(Counter(label for _, label in people_answers(question)))


OWN = ROOT / "data" / "questions.jsonl"
PET = {
    "prompt_id": "pet",
    "prompt": "Name a pet.",
    "human": {"classes": [{"label": "dog", "count": 6, "members": ["dog", "puppy"]}], "n": 10},
}


def read(source, form="questions", split=None, max_prompts=None, template="{prompt}"):
    return prompt_set(QuestionsConfig(str(source), form, None, split, max_prompts, template), None)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_our_own_format(tmp_path):
    row = {**PET, "gold": ["Puppy"], "options": ["dog", "cat"], "category": "animals"}
    (found,) = read(write(tmp_path / "a.jsonl", row), template="{prompt} One word.")
    shown = "\nA. dog\nB. cat\nAnswer with the letter only. One word."
    assert found.text == f"Name a pet.{shown}"
    assert classify(["A", "b", "puppy"], found) == ["dog", "cat", "dog"]
    assert found.options == ("dog", "cat") and right_label(found) == "dog"
    assert people_counts(found) == {"dog": 6, OTHER: 4}
    assert found.bare == f"Name a pet.{shown.removesuffix(' One word.')}"
    # Of a list of spellings all but the first were given once; an object says how often.
    assert found.human[0].answers == {"dog": 5, "puppy": 1}
    row["human"] = {"classes": [{"label": "dog", "count": 6, "members": {"puppy": 4, "dog": 2}}], "n": 6}
    assert read(write(tmp_path / "a.jsonl", row))[0].human[0].answers == {"puppy": 4, "dog": 2}


def test_questions_come_back_from_their_table(tmp_path):
    found = read(OWN)
    write_questions(tmp_path / "questions.parquet", found)
    assert read_questions(tmp_path / "questions.parquet") == found
    assert [prompt.text for prompt in read_requests(tmp_path / "questions.parquet")] == [each.text for each in found]


def test_a_file_with_splits(tmp_path):
    path = write(tmp_path / "all.jsonl", {**PET, "split": "dev"})
    assert len(read(path, split="dev")) == 1
    with pytest.raises(ConfigError, match="prompts.questions.split: .* has no split 'test'; it has dev"):
        read(path, split="test")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no questions"),
        ([{"prompt_id": "a", "prompt": "x"}], r"question 1 \(a\): a question needs accepted answers"),
        ([PET, PET], "question 2: the id 'pet' is there twice"),
        ([{**PET, "gold": "dog"}], "the field 'gold' must be a list of texts or null, got 'dog'"),
        (
            [{**PET, "human": {"classes": [{"label": "dog", "count": 6, "members": {"dog": 4, "puppy": 1}}], "n": 9}}],
            "question 1: the class 'dog' has a count of 6 people, and its members add up to 5",
        ),
        ([{**PET, "human": {**PET["human"], "n": 7.5}}], "must be a whole number of people, got 7.5"),
        ([{**PET, "options": ["dog"]}], "a choice has 2 to 26 options, got 1"),
        ([{**PET, "options": ["dog", "Dog!"]}], "two of its options are the same: 'dog', 'Dog!'"),
        ([{**PET, "options": ["dog", "cat"], "gold": ["A"]}], "the answer 'A' reads like the letter of an option"),
    ],
)
def test_what_is_wrong_is_one_sentence(rows, message, tmp_path):
    with pytest.raises(ArtifactError, match=message) as error:
        read(write(tmp_path / "a.jsonl", *rows))
    assert "\n" not in str(error.value) and "a.jsonl" in str(error.value)


def test_protoqa_s_format(tmp_path):
    row = {
        "metadata": {"id": "r1q1"},
        "question": {"original": "Name a pet.", "normalized": "name a pet."},
        "answers": {
            "raw": {"dog": 5, "puppy": 1, "cat": 3, "naa": 1},
            "clusters": {
                "r1q1.0": {"count": 6, "answers": ["puppy", "dog"]},
                "r1q1.1": {"count": 3, "answers": ["cat"]},
            },
        },
    }
    (found,) = read(write(tmp_path / "a.jsonl", row), "protoqa")
    assert people_counts(found) == {"dog": 6, "cat": 3, OTHER: 1} and found.num_people == 10
    assert found.human[0].answers == {"puppy": 1, "dog": 5}


def test_the_shipped_set_is_what_its_script_writes_and_the_embedded_model_knows_its_words():
    for path, rows in ((OWN, made_questions()), (OWN.with_name("facts.jsonl"), made_facts())):
        assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    assert all(question.gold and not question.human for question in read(OWN.with_name("facts.jsonl")))
    assert all(question.human for question in read(OWN))
