"""Whether a score tells right answers from wrong ones, and whether it does so by their length alone."""

import math

import numpy as np
from scipy.stats import rankdata

LENGTH_GROUPS = 5
"""Groups of answers by length, of equal size, within which the AUROC is taken again."""
LEAST_OF_EITHER = 10
"""Right answers, and wrong ones, below which an AUROC says nothing."""
TIE = 1e-10


def auroc(score: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Probability that a right answer has a larger score than a wrong one, ties counted half (Mann and Whitney 1947).

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: bool[N], whether they are.
        weights: float64[..., N], how often each answer counts; None for once.

    Returns:
        float64[...]; NaN where all are right or all are wrong.
    """
    order = np.argsort(score, kind="stable")
    starts = np.unique(np.asarray(score)[order], return_index=True)[1]
    own, labels = np.ones(len(order)) if weights is None else weights[..., order], np.asarray(labels, dtype=bool)[order]
    right, wrong = (np.add.reduceat(own * side, starts, axis=-1) for side in (labels, ~labels))
    pairs = right.sum(axis=-1) * wrong.sum(axis=-1)
    won = (right * (wrong.cumsum(axis=-1) - wrong / 2)).sum(axis=-1)
    return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1), math.nan)


def auroc_problem(score: np.ndarray, labels: np.ndarray) -> str:
    """Why no AUROC is reported: too few right or wrong answers, or too many ties; "" where one is."""
    labels = np.asarray(labels, dtype=bool)
    right, wrong = int(labels.sum()), int((~labels).sum())
    if min(right, wrong) < LEAST_OF_EITHER:
        return f"{right} right and {wrong} wrong answers; an AUROC needs {LEAST_OF_EITHER} of each"
    ties = (np.abs(np.asarray(score)[labels][:, None] - np.asarray(score)[~labels]) <= TIE).mean()
    return f"{ties:.0%} of the pairs are ties; an AUROC needs half of them to differ" if ties > 0.5 else ""


def auroc_within_length(
    score: np.ndarray, labels: np.ndarray, lengths: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """AUROC within groups of answers of like length, weighted by pairs of a right and a wrong one (arXiv:2504.13677).

    A label whose errors go with length favours scores that do; within a group it cannot.

    Args:
        score: As for ``auroc``.
        labels: As for ``auroc``.
        lengths: float64[N], tokens of the answers.
        weights: As for ``auroc``.

    Returns:
        float64[...]; NaN where no group has both.
    """
    labels, weights = np.asarray(labels, dtype=bool), np.ones(len(labels)) if weights is None else weights
    groups = np.minimum((rankdata(lengths) - 1) * LENGTH_GROUPS // max(1, len(lengths)), LENGTH_GROUPS - 1)
    won, pairs = 0.0, 0.0
    for group in np.unique(groups):
        own = groups == group
        number = (weights[..., own] * labels[own]).sum(axis=-1) * (weights[..., own] * ~labels[own]).sum(axis=-1)
        area = auroc(np.asarray(score)[own], labels[own], weights[..., own])
        won, pairs = won + np.where(number > 0, area, 0.0) * number, pairs + number
    return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1), math.nan)
