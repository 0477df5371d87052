"""What stages of answers to questions share: their texts, and how often each class was answered, by setting."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import PARTITION_COLUMNS, SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import read_table
from pipeline.config.evaluation import DEFAULT_SETTING, is_variant
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.axes.questions.classes import Rule, counts_of
from pipeline.axes.questions.question import Question
from pipeline.errors import ArtifactError

Counts = dict[str, dict[str, int]]
"""Answers by class, by prompt id."""


def answer_texts(protocol: AnswerProtocol, table: pd.DataFrame, rule: Rule) -> list[str | None]:
    """The answer in each row of a generations table; None where there is none."""
    replies = [answers[0] for answers in read_answers(protocol, table)]
    # Of several lines the last number may be the result; elsewhere an answer is the first line.
    texts = replies if rule == "number" else [normalise_answer(reply) for reply in replies]
    return [None if isinstance(text, Invalid) else text for text in texts]


def _all_counts(partitions: Path) -> dict[str, Counts]:
    """Counts of everything in the column of settings, the default one first."""
    table = read_table(partitions, PARTITION_COLUMNS)
    found: dict[str, Counts] = {name: {} for name in (DEFAULT_SETTING, *table[SETTING_COLUMN].unique())}
    for (setting, prompt_id), own in table.groupby([SETTING_COLUMN, "prompt_id"], sort=False):
        found[setting][prompt_id] = counts_of(own["label"].tolist())
    return found


def counts_by_setting(partitions: Path, questions: Sequence[Question]) -> dict[str, Counts]:
    """Counts of each decoding setting, the default one first. Raises ArtifactError for a question without answers."""
    found = {name: counts for name, counts in _all_counts(partitions).items() if not is_variant(name)}
    for setting, counts in found.items():
        for question in questions:
            if question.prompt_id not in counts:
                raise ArtifactError(
                    f"{partitions} has no answers to the question {question.prompt_id} (setting {setting})"
                )
    return found


def counts_by_wording(partitions: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Counts of a question's own wording ("default") and of its paraphrases, by prompt id; of those that have any."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, counts in _all_counts(partitions).items():
        if name == DEFAULT_SETTING or is_variant(name):
            for prompt_id, own in counts.items():
                found.setdefault(prompt_id, {})[name] = own
    return {prompt_id: members for prompt_id, members in found.items() if len(members) > 1}


def default_answers(partitions: Path, questions: Sequence[Question]) -> dict[str, pd.DataFrame]:
    """Rows of the default decoding setting by prompt id, in the order of their samples; ``answer`` is None where null.

    Raises ArtifactError for a question without answers.
    """
    table = read_table(partitions, PARTITION_COLUMNS)
    table = table[table[SETTING_COLUMN] == DEFAULT_SETTING].sort_values("sample_index", kind="stable")
    table = table.assign(answer=table["answer"].astype(object).where(table["answer"].notna(), None))
    found = dict(iter(table.groupby("prompt_id")))
    for question in questions:
        if question.prompt_id not in found:
            raise ArtifactError(f"{partitions} has no answers to the question {question.prompt_id}")
    return found


def question_table(
    questions: Sequence[Question],
    counts: Counts,
    row: Callable[[Question, dict[str, int], np.random.Generator], dict[str, Any]],
    seed: int,
    stream: str,
) -> pd.DataFrame:
    """A row of ``row`` for each question. Its random stream is named by question alone: the same for all conditions."""
    return pd.DataFrame(
        [
            row(question, counts[question.prompt_id], random_stream(seed, stream, question.prompt_id))
            for question in questions
        ]
    )


def split_name(setting: str) -> str:
    """The split that a setting is reported as: "all" for the default one."""
    return "all" if setting == DEFAULT_SETTING else setting
