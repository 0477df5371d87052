"""Tables of questions, and of the requests that perturb them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_table, write_table
from pipeline.axes.questions.question import HumanClass, Question

QUESTION_COLUMNS = ("prompt_id", "split", "category", "prompt", "bare", "question")
"""What is asked, and the whole question as JSON."""


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write the questions of a prompt set, split "questions"."""
    rows = [(q.prompt_id, "questions", q.category, q.text, q.bare, json.dumps(asdict(q))) for q in questions]
    write_table(path, pd.DataFrame(rows, columns=list(QUESTION_COLUMNS)))


def read_questions(path: Path) -> list[Question]:
    """Read the questions of a prompt set, in file order."""
    return [_question(json.loads(text)) for text in read_table(path, QUESTION_COLUMNS)["question"]]


def _question(content: dict) -> Question:
    human = tuple(HumanClass(**item) for item in content.pop("human"))
    texts = {name: tuple(content.pop(name)) for name in ("options", "gold", "variants")}
    return Question(**content, **texts, human=human)


def read_perturbations(path: Path) -> dict[str, dict[str, str]]:
    """Texts by request (ID~0 and so on) and question: the question's own, then its perturbations, in file order."""
    found: dict[str, dict[str, str]] = {}
    for prompt in read_text_prompts(path):
        found.setdefault(prompt.category, {})[prompt.prompt_id] = prompt.text
    return found
