"""Tables of prompts: structured ones with their laws, those whose answers are text, and questions."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_table, write_table
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.structured import Prompt
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.semantics.question import HumanClass, Question

PROMPT_COLUMNS = (
    "prompt_id",
    "split",
    "family",
    "tier",
    "parameters",
    "prompt",
    "scipy_name",
    "scipy_kwargs",
    "support_lower",
    "support_upper",
    "integer",
)


FINITE_LAW = "finite_law"
"""A further column, as JSON, of tables that hold finite laws; empty beside SciPy's."""


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write one split's prompts."""
    rows = [
        (
            prompt.prompt_id,
            prompt.split,
            prompt.family,
            prompt.tier,
            json.dumps(prompt.parameters),
            prompt.text,
            prompt.law.scipy_name,
            json.dumps(dict(prompt.law.scipy_kwargs)),
            *prompt.support,
            prompt.law.integer,
        )
        for prompt in prompts
    ]
    table = pd.DataFrame(rows, columns=list(PROMPT_COLUMNS))
    finite = [json.dumps(asdict(p.law)) if isinstance(p.law, FiniteLaw) else "" for p in prompts]
    write_table(path, table.assign(**{FINITE_LAW: finite}) if any(finite) else table)


def _finite_law(text: str) -> FiniteLaw:
    content = json.loads(text)
    return FiniteLaw(**{name: None if value is None else tuple(value) for name, value in content.items()})


def read_prompts(*paths: Path) -> list[Prompt]:
    """Read prompts of one or several splits, in file order."""
    prompts = []
    for path in paths:
        for row in read_table(path, PROMPT_COLUMNS).itertuples():
            finite = getattr(row, FINITE_LAW, "")
            law = _finite_law(finite) if finite else Law(row.scipy_name, json.loads(row.scipy_kwargs))
            prompts.append(
                Prompt(row.prompt_id, row.split, row.family, row.tier, json.loads(row.parameters), row.prompt, law)
            )
    return prompts


TEXT_PROMPT_COLUMNS = ("prompt_id", "split", "category", "prompt")


def write_text_prompts(path: Path, prompts: Sequence[TextPrompt]) -> None:
    """Write the prompts of an axis whose answers are text."""
    rows = [(prompt.prompt_id, prompt.split, prompt.category, prompt.text) for prompt in prompts]
    write_table(path, pd.DataFrame(rows, columns=list(TEXT_PROMPT_COLUMNS)))


def read_text_prompts(*paths: Path) -> list[TextPrompt]:
    """Read text prompts, in file order."""
    tables = [read_table(path, TEXT_PROMPT_COLUMNS)[list(TEXT_PROMPT_COLUMNS)] for path in paths]
    return [TextPrompt(*row) for table in tables for row in table.itertuples(index=False, name=None)]


QUESTION_COLUMNS = ("prompt_id", "split", "category", "prompt", "options", "gold", "human", "num_people", "variants")
"""Lists are JSON; those of ``human`` are label, count and members of each class."""


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
            json.dumps([(item.label, item.count, item.members) for item in question.human]),
            question.num_people,
            json.dumps(question.variants),
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
            tuple(HumanClass(label, count, tuple(members)) for label, count, members in json.loads(row.human)),
            int(row.num_people),
            tuple(json.loads(row.variants)),
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


def read_requests(*paths: Path) -> list[TextPrompt]:
    """The requests of any prompt tables, in file order; of structured ones the law is left unread."""
    tables = [read_table(path, ("prompt_id", "split", "prompt")) for path in paths]
    rows = (row for table in tables for row in table[["prompt_id", "split", "prompt"]].itertuples(index=False))
    return [TextPrompt(row.prompt_id, row.split, "", row.prompt) for row in rows]
