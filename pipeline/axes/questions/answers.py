"""A model's answers to questions: how they are read from replies, and their tables."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import read_table
from pipeline.axes.questions.classes import known_classes, normalise
from pipeline.axes.questions.question import Question
from pipeline.config.evaluation import DEFAULT_SETTING, StyleConfig
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

    ``spellings`` is what of them the rule of classes compares, ``lengths`` the tokens of the replies, float64[n].
    """

    texts: list[str | None]
    spellings: list[str | None]
    labels: list[str]
    lengths: np.ndarray


def answer_texts(protocol: AnswerProtocol, table: pd.DataFrame) -> list[str | None]:
    """The answer in each row of a generations table; None where there is none."""
    texts = [normalise_answer(answers[0]) for answers in read_answers(protocol, table)]
    return [None if isinstance(text, Invalid) else text for text in texts]


def styled_answer(reply: str | Invalid, style: StyleConfig, question: Question) -> str | None:
    """The answer in a reply that was asked for in a style; None where the style's rule finds none."""
    if isinstance(reply, Invalid):
        return None
    if style.read == "mentioned":
        return mentioned(reply, question)
    if style.read == "after":
        _, mark, reply = reply.rpartition(str(style.mark))
        if not mark:
            return None
    text = normalise_answer(reply)
    return None if isinstance(text, Invalid) else text


def mentioned(reply: str, question: Question) -> str | None:
    """The spelling of a known answer that a reply mentions, of several the longest; else the reply itself.

    None for a reply without a letter or digit, and for one that mentions answers of several classes.
    """
    words = f" {normalise(reply)} "
    if not words.strip():
        return None
    found = {
        spelling: label
        for label, texts in known_classes(question).items()
        for spelling in map(normalise, texts)
        if len(spelling) > 1 and f" {spelling} " in words
    }
    if not found:
        return reply.strip()
    longest = max(found, key=len)
    rest = words.replace(f" {longest} ", "  ")
    others = {label for spelling, label in found.items() if f" {spelling} " in rest}
    return longest if others <= {found[longest]} else None


def read_partition(
    path: Path, questions: Sequence[Question], settings: Iterable[str] = (DEFAULT_SETTING,)
) -> dict[str, dict[str, Answers]]:
    """Answers by setting and question. Raises ArtifactError for a question without any under one of ``settings``."""
    table = read_table(path, PARTITION_COLUMNS).sort_values("sample_index", kind="stable")
    for column in ("answer", "spelling"):
        table[column] = table[column].astype(object).where(table[column].notna(), None)
    found: dict[str, dict[str, Answers]] = {}
    for (setting, prompt_id), own in table.groupby([SETTING_COLUMN, "prompt_id"], sort=False):
        columns = (own[name].tolist() for name in ("answer", "spelling", "label"))
        found.setdefault(setting, {})[prompt_id] = Answers(*columns, own["num_tokens"].to_numpy(np.float64))
    for setting, question in itertools.product(settings, questions):
        if question.prompt_id not in found.get(setting, {}):
            raise ArtifactError(f"{path} has no answers to the question {question.prompt_id} (setting {setting})")
    return found


def answer_splits(params: Params) -> dict[str, str]:
    """Setting of the answers by split: "all" is the bare answer, the others are the styles."""
    return {"all": DEFAULT_SETTING, **{name: name for name in params.generate.questions.styles}}


def answer_rows(
    answers: Mapping[str, Mapping[str, Mapping[str, Answers]]],
    questions: Sequence[Question],
    row: Callable[[Question, Answers, str], Mapping[str, Any]],
    setting: str = DEFAULT_SETTING,
) -> pd.DataFrame:
    """What ``row`` makes of every question, its answers under a setting, and the condition, of all of them.

    ``answers`` are by condition, setting and question. The rows have columns prompt_id and condition besides.
    """
    return pd.DataFrame(
        [
            {"prompt_id": asked.prompt_id, "condition": name, **row(asked, own[setting][asked.prompt_id], name)}
            for name, own in answers.items()
            for asked in questions
        ]
    )


def class_counts(labels: Sequence[str], laws: Mapping[str, float] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Answers by class, int64[K], and a law over the same classes, float64[K]: those of either."""
    names = {name: place for place, name in enumerate(dict.fromkeys((*(laws or {}), *labels)))}
    counts = np.bincount([names[label] for label in labels], minlength=len(names))
    return counts, np.array([(laws or {}).get(name, 0.0) for name in names])
