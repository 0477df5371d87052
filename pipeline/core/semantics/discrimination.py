"""Whether a score tells right answers from wrong ones, and whether it does so by their length alone."""

import math

import numpy as np
from scipy.stats import rankdata

from pipeline.core.semantics.alignment import rank_correlation

STRATA = 5
"""Groups of answers by length, of equal size, within which the AUROC is taken again."""


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


def risk_coverage_area(score: np.ndarray, labels: np.ndarray) -> float:
    """AURC: mean over k of the share of errors among the k answers with the largest scores; lower is better.

    Args:
        score: float64[N].
        labels: float64[N], 1 for right.
    """
    values, place = np.unique(-np.asarray(score, dtype=np.float64), return_inverse=True)
    errors = 1 - np.asarray(labels, dtype=np.float64)
    means = np.bincount(place, errors, minlength=len(values)) / np.bincount(place, minlength=len(values))
    # Equal scores share their errors evenly, as in the mean over their orders.
    errors = means[np.sort(place)]
    return float((np.cumsum(errors) / np.arange(1, len(errors) + 1)).mean())


def prediction_rejection_ratio(score: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """PRR (Malinin and Gales 2021, Section 5): how much of what an oracle gains by rejecting errors the score gains.

    Answers are rejected from the smallest score on; the curve is the share of all answers that are errors and not yet
    rejected, by the share that is rejected. The ratio of the areas that the score and an oracle have below the
    straight line of rejection at random: 1 for an oracle, 0 at random. For right or wrong that is 2 AUROC - 1.

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: bool[N], whether they are.
        weights: float64[..., N], how often each answer counts; None for once.

    Returns:
        float64[...]; NaN where all are right or all are wrong.
    """
    return 2 * auroc(score, labels, weights) - 1


def length_audit(score: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """What of an AUROC is length: a label whose errors go with length favours scores that do (arXiv:2504.13677).

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: bool[N], whether they are.
        lengths: float64[N], tokens of the answers.

    Returns:
        length_score_spearman, length_label_spearman; auroc_length, that of the length alone, short answers taken to
        be right; and auroc_within_length, the mean over groups of answers of like length, weighted by their pairs of a
        right and a wrong answer. NaN where undefined.
    """
    labels, lengths = np.asarray(labels, dtype=bool), np.asarray(lengths, dtype=np.float64)
    strata = np.minimum((rankdata(lengths, method="average") - 1) * STRATA // max(1, len(lengths)), STRATA - 1)
    areas, pairs = [], []
    for stratum in np.unique(strata):
        own = strata == stratum
        right = int(labels[own].sum())
        if number := right * (int(own.sum()) - right):
            areas.append(float(auroc(np.asarray(score)[own], labels[own])))
            pairs.append(number)
    return {
        "length_score_spearman": rank_correlation(lengths, score),
        "length_label_spearman": rank_correlation(lengths, labels.astype(np.float64)),
        "auroc_length": float(auroc(-lengths, labels)),
        "auroc_within_length": float(np.average(areas, weights=pairs)) if pairs else math.nan,
    }
