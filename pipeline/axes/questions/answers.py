"""A model's answers to questions: their tables, and the rows that an axis makes of them."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.question import Question
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.config.params import Params
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.errors import ArtifactError

PARTITION_COLUMNS = ("prompt_id", SETTING_COLUMN, "sample_index", "answer", "spelling", "label", "num_tokens")
"""One row per generation; the answer and its spelling are null where there is none, the label is its class."""


@dataclass(frozen=True)
class Answers:
    """The answers to one question under one setting, in the order of their samples; texts None without an answer.

    ``spellings`` is what of them the rule of classes compares, ``lengths`` the tokens of the replies.
    """

    texts: list[str | None]
    spellings: list[str | None]
    labels: list[str]
    lengths: list[int]


ByCondition = Mapping[str, Mapping[str, Mapping[str, Answers]]]
"""Answers by condition, setting and question."""


def answer_texts(protocol: AnswerProtocol, table: pd.DataFrame) -> list[str | None]:
    """The answer in each row of a generations table; None where there is none."""
    return [answer_text(answers[0]) for answers in read_answers(protocol, table)]


def answer_text(reply: str | Invalid) -> str | None:
    """The answer that a reply is; None where it is none."""
    text = normalise_answer(reply)
    return None if isinstance(text, Invalid) else text


def read_partitions(
    evaluation: ModelEvaluation,
    directory: Path,
    questions: Sequence[Question],
    settings: Iterable[str] = (DEFAULT_SETTING,),
) -> ByCondition:
    """The answers under every condition; see ``read_partition``."""
    return {name: read_partition(path, questions, settings) for name, path in evaluation.paths(directory)}


def read_partition(
    path: Path, questions: Sequence[Question], settings: Iterable[str] = (DEFAULT_SETTING,)
) -> dict[str, dict[str, Answers]]:
    """Answers by setting and question. Raises ArtifactError for a question without any under one of ``settings``."""
    table = read_table(path, PARTITION_COLUMNS).sort_values("sample_index", kind="stable")
    for column in ("answer", "spelling"):
        table[column] = table[column].astype(object).where(table[column].notna(), None)
    found: dict[str, dict[str, Answers]] = {}
    for (setting, prompt_id), own in table.groupby([SETTING_COLUMN, "prompt_id"], sort=False):
        columns = (own[name].tolist() for name in ("answer", "spelling", "label", "num_tokens"))
        found.setdefault(setting, {})[prompt_id] = Answers(*columns)
    for setting, question in itertools.product(settings, questions):
        if question.prompt_id not in found.get(setting, {}):
            raise ArtifactError(f"{path} has no answers to the question {question.prompt_id} (setting {setting})")
    return found


def answer_splits(params: Params) -> dict[str, str]:
    """Setting of the answers by split: "all" is the bare answer, the others are the styles."""
    return {"all": DEFAULT_SETTING, **{name: name for name in params.generate.questions.styles}}


def answer_rows(
    answers: ByCondition,
    questions: Sequence[Question],
    row: Callable[[Question, Answers, str], Mapping[str, Any]],
    setting: str = DEFAULT_SETTING,
) -> pd.DataFrame:
    """Columns prompt_id, condition and what ``row`` makes of every question, its answers and the condition."""
    return pd.DataFrame(
        [
            {"prompt_id": asked.prompt_id, "condition": name, **row(asked, own[setting][asked.prompt_id], name)}
            for name, own in answers.items()
            for asked in questions
        ]
    )


def class_counts(labels: Sequence[str], law: Mapping[str, float] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Answers by class, int64[K], and a law over the same classes, float64[K]: those of either."""
    law = law or {}
    names = {name: place for place, name in enumerate(dict.fromkeys((*law, *labels)))}
    counts = np.bincount([names[label] for label in labels], minlength=len(names))
    return counts, np.array([law.get(name, 0.0) for name in names])


def modal_class(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Index int64[...] of the most frequent class of counts int[..., K], one at random of several."""
    # A number below 1 for each class breaks ties.
    return (counts + rng.random(np.shape(counts))).argmax(axis=-1)
