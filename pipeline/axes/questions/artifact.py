"""Tables of questions and of their perturbations."""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_table, write_table
from pipeline.axes.questions.question import HumanClass, Question

QUESTION_COLUMNS = (
    *("prompt_id", "split", "category", "prompt", "options"),
    *("gold", "human", "num_people", "variants", "bare"),
)
"""Lists are JSON; those of ``human`` are the label of each class and people by spelling."""


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write the questions of a prompt set, split "questions"."""
    rows = [
        (
            question.prompt_id,
            "questions",
            question.category,
            question.text,
            json.dumps(question.options),
            json.dumps(question.gold),
            json.dumps([(item.label, item.answers) for item in question.human]),
            question.num_people,
            json.dumps(question.variants),
            question.bare,
        )
        for question in questions
    ]
    write_table(path, pd.DataFrame(rows, columns=list(QUESTION_COLUMNS)))


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a prompt set, in file order."""
    return [
        Question(
            row.prompt_id,
            row.prompt,
            row.category,
            tuple(json.loads(row.options)),
            tuple(json.loads(row.gold)),
            tuple(HumanClass(label, answers) for label, answers in json.loads(row.human)),
            int(row.num_people),
            tuple(json.loads(row.variants)),
            row.bare,
        )
        for row in read_table(path, QUESTION_COLUMNS).itertuples()
    ]


PERTURBATION_COLUMNS = ("prompt_id", "split", "prompt", "question_id")
"""A question and its perturbations are requests of their own, with the ids ID~0, ID~1 and so on."""


def write_perturbations(path: Path, questions: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Write questions by id, each with its own text and then its perturbations, split "perturbations"."""
    rows = [
        (f"{name}~{number}", "perturbations", text, name)
        for name, texts in questions
        for number, text in enumerate(texts)
    ]
    write_table(path, pd.DataFrame(rows, columns=list(PERTURBATION_COLUMNS)))


def read_perturbations(path: Path) -> dict[str, dict[str, str]]:
    """Texts by request and question: the question's own, then its perturbations, in file order."""
    found: dict[str, dict[str, str]] = {}
    for row in read_table(path, PERTURBATION_COLUMNS).itertuples():
        found.setdefault(row.question_id, {})[row.prompt_id] = row.prompt
    return found
