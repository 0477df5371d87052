"""Whether a measure of uncertainty tells right answers from wrong ones, and whether by their length alone."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from pipeline.axes.questions.answers import class_counts, modal_class
from pipeline.axes.questions.classes import right_label
from pipeline.axes.questions.question import Question
from pipeline.core.statistics.summarise import Statistic

LEAST_OF_EITHER = 10
"""Right answers, and wrong ones, below which an AUROC says nothing."""
TIE = 1e-10
LENGTH_GROUPS = 5
"""Groups of answers by length, of equal size, within which the AUROC is taken again."""


def answer_is_right(question: Question, labels: Sequence[str], rng: np.random.Generator) -> float:
    """1 where the most frequent class of answers is right, else 0; NaN where nothing is right or wrong."""
    right = right_label(question)
    counts, law = class_counts(labels, None if right is None else {right: 1.0})
    return math.nan if right is None else float(law[modal_class(counts, rng)])


def auroc(score: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Probability that a right answer has a larger score than a wrong one, ties half (Mann and Whitney 1947).

    Of scores float64[N], labels bool[N] and weights float64[..., N]: float64[...], NaN where all are right or all
    wrong.
    """
    order = np.argsort(score, kind="stable")
    starts = np.unique(np.asarray(score)[order], return_index=True)[1]
    own, labels = np.ones(len(order)) if weights is None else weights[..., order], np.asarray(labels, dtype=bool)[order]
    right, wrong = (np.add.reduceat(own * side, starts, axis=-1) for side in (labels, ~labels))
    pairs = right.sum(axis=-1) * wrong.sum(axis=-1)
    won = (right * (wrong.cumsum(axis=-1) - wrong / 2)).sum(axis=-1)
    return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1), math.nan)


def auroc_within_length(
    score: np.ndarray, labels: np.ndarray, lengths: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """AUROC within groups of like lengths float64[N], weighted by pairs of a right and a wrong answer.

    A label whose errors go with length favours scores that do (arXiv:2504.13677); within a group it cannot.
    """
    weights = np.ones(len(labels)) if weights is None else weights
    groups = np.minimum((rankdata(lengths) - 1) * LENGTH_GROUPS // max(1, len(lengths)), LENGTH_GROUPS - 1)
    won, pairs = 0.0, 0.0
    for group in np.unique(groups):
        own = groups == group
        number = (weights[..., own] * labels[own]).sum(axis=-1) * (weights[..., own] * ~labels[own]).sum(axis=-1)
        area = auroc(score[own], labels[own], weights[..., own])
        won, pairs = won + np.where(number > 0, area, 0.0) * number, pairs + number
    return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1), math.nan)


def auroc_problem(score: np.ndarray, labels: np.ndarray) -> str:
    """Why no AUROC is reported: too few right or wrong answers, or too many ties; "" where one is."""
    right, wrong = score[labels], score[~labels]
    if min(len(right), len(wrong)) < LEAST_OF_EITHER:
        return f"{len(right)} right and {len(wrong)} wrong answers; an AUROC needs {LEAST_OF_EITHER} of each"
    ties = (np.abs(right[:, None] - wrong) <= TIE).mean()
    return f"{ties:.0%} of the pairs are ties; an AUROC needs half of them to differ" if ties > 0.5 else ""


def auroc_of(column: str, area: Callable[..., np.ndarray] = auroc, *more: str) -> Statistic:
    """AUROC of a measure of uncertainty for wrong answers, of rows with it, ``right`` and ``more`` columns."""

    def sides(rows: pd.DataFrame) -> list[np.ndarray]:
        others = [rows[name].to_numpy() for name in more]
        return [-rows[column].to_numpy(), rows["right"].to_numpy() > 0.5, *others]

    return Statistic(
        (column, "right", *more),
        lambda rows, weights: area(*sides(rows), weights),
        problem=lambda rows: auroc_problem(*sides(rows)[:2]),
    )
