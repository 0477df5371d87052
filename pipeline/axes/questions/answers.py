"""A model's answers to questions: their tables, rows that an axis makes of them, and AUROCs for wrong answers."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.generations import SETTING_COLUMN, read_answers
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.question import Question, right_label
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.config.params import Params
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.statistics.summarise import Statistic
from pipeline.errors import ArtifactError

PARTITION_COLUMNS = ("prompt_id", SETTING_COLUMN, "sample_index", "answer", "spelling", "label", "num_tokens")
"""One row per generation; the answer and its spelling are null where there is none, the label is its class."""

LEAST_OF_EITHER = 10
"""Right answers, and wrong ones, below which an AUROC says nothing."""


@dataclass(frozen=True)
class Answers:
    """The answers to one question under one setting, in the order of their samples, and as classes compare them; None
    without an answer."""

    texts: list[str | None]
    spellings: list[str | None]
    labels: list[str]


ByCondition = Mapping[str, Mapping[str, Mapping[str, Answers]]]


def answer_texts(protocol: AnswerProtocol, table: pd.DataFrame) -> list[str | None]:
    return [answer_text(answer) for answer in read_answers(protocol, table)]


def answer_text(reply: str | Invalid) -> str | None:
    text = normalise_answer(reply)
    return None if isinstance(text, Invalid) else text


def read_partitions(
    evaluation: ModelEvaluation,
    directory: Path,
    questions: Sequence[Question],
    settings: Iterable[str] = (DEFAULT_SETTING,),
) -> ByCondition:
    return {name: read_partition(path, questions, settings) for name, path in evaluation.paths(directory)}


def read_partition(
    path: Path, questions: Sequence[Question], settings: Iterable[str] = (DEFAULT_SETTING,)
) -> dict[str, dict[str, Answers]]:
    """Answers by setting and question. Raises ArtifactError for a question without any under one of ``settings``."""
    table = read_table(path, PARTITION_COLUMNS).sort_values("sample_index", kind="stable")
    for column in ("answer", "spelling"):
        table[column] = table[column].astype(object).where(table[column].notna(), None)
    answers: dict[str, dict[str, Answers]] = {}
    for (setting, prompt_id), rows in table.groupby([SETTING_COLUMN, "prompt_id"], sort=False):
        columns = (rows[name].tolist() for name in ("answer", "spelling", "label"))
        answers.setdefault(setting, {})[prompt_id] = Answers(*columns)
    for setting, question in itertools.product(settings, questions):
        if question.prompt_id not in answers.get(setting, {}):
            raise ArtifactError(f"{path} has no answers to the question {question.prompt_id} (setting {setting})")
    return answers


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
    places = {name: place for place, name in enumerate(dict.fromkeys((*law, *labels)))}
    counts = np.bincount([places[label] for label in labels], minlength=len(places))
    return counts, np.array([law.get(name, 0.0) for name in places])


def modal_class(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Index int64[...] of the most frequent class of counts int[..., K], one at random of several."""
    # A number below 1 for each class breaks ties.
    return (counts + rng.random(np.shape(counts))).argmax(axis=-1)


def answer_is_right(question: Question, labels: Sequence[str], rng: np.random.Generator) -> float:
    """1 where the most frequent class of answers is right, else 0; NaN where nothing is right or wrong."""
    right = right_label(question)
    counts, law = class_counts(labels, None if right is None else {right: 1.0})
    return math.nan if right is None else float(law[modal_class(counts, rng)])


def auroc(score: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Probability that a right answer has a larger score than a wrong one, ties half (Mann and Whitney 1947):
    float64[...] of scores float64[N], bool[N] and weights float64[..., N]; NaN where all are right or all wrong."""
    order = np.argsort(score, kind="stable")
    starts = np.unique(np.asarray(score)[order], return_index=True)[1]
    own, labels = np.ones(len(order)) if weights is None else weights[..., order], np.asarray(labels, dtype=bool)[order]
    right, wrong = (np.add.reduceat(own * side, starts, axis=-1) for side in (labels, ~labels))
    pairs = right.sum(axis=-1) * wrong.sum(axis=-1)
    won = (right * (wrong.cumsum(axis=-1) - wrong / 2)).sum(axis=-1)
    return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1), math.nan)


def auroc_problem(score: np.ndarray, labels: np.ndarray) -> str:
    """Why no AUROC is reported: too few right or wrong answers, or too many ties; "" where one is."""
    right, wrong = score[labels], score[~labels]
    if min(len(right), len(wrong)) < LEAST_OF_EITHER:
        return f"{len(right)} right and {len(wrong)} wrong answers; an AUROC needs {LEAST_OF_EITHER} of each"
    ties = (np.abs(right[:, None] - wrong) <= 1e-10).mean()
    return f"{ties:.0%} of the pairs are ties; an AUROC needs half of them to differ" if ties > 0.5 else ""


def auroc_of(column: str) -> Statistic:
    """AUROC of a measure of uncertainty for wrong answers, of rows with it and ``right``."""

    def sides(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return -rows[column].to_numpy(), rows["right"].to_numpy() > 0.5

    return Statistic(
        (column, "right"),
        lambda rows, weights: auroc(*sides(rows), weights),
        problem=lambda rows: auroc_problem(*sides(rows)),
    )
