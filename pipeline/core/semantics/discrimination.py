"""Whether a score tells right answers from wrong ones, and whether it does so by their length alone."""

import math

import numpy as np
from scipy.stats import rankdata

from pipeline.core.semantics.alignment import rank_correlation

STRATA = 5
"""Groups of answers by length, of equal size, within which the AUROC is taken again."""


def auroc(score: np.ndarray, labels: np.ndarray) -> float:
    """Probability that a right answer has a larger score than a wrong one, ties counted half (Mann and Whitney 1947).

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: bool[N], whether they are.

    Returns:
        NaN where all are right or all are wrong.
    """
    labels = np.asarray(labels, dtype=bool)
    right, wrong = int(labels.sum()), int((~labels).sum())
    if not right or not wrong:
        return math.nan
    return float((rankdata(score)[labels].sum() - right * (right + 1) / 2) / (right * wrong))


def _errors_by_score(score: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """float64[N] errors, largest score first; equal scores share theirs evenly, as in the mean over their orders."""
    values, place = np.unique(-np.asarray(score, dtype=np.float64), return_inverse=True)
    errors = 1 - np.asarray(labels, dtype=np.float64)
    means = np.bincount(place, errors, minlength=len(values)) / np.bincount(place, minlength=len(values))
    return means[np.sort(place)]


def risk_coverage_area(score: np.ndarray, labels: np.ndarray) -> float:
    """AURC: mean over k of the share of errors among the k answers with the largest scores; lower is better.

    Args:
        score: float64[N].
        labels: float64[N], 1 for right.
    """
    errors = _errors_by_score(score, labels)
    return float((np.cumsum(errors) / np.arange(1, len(errors) + 1)).mean())


def prediction_rejection_ratio(score: np.ndarray, labels: np.ndarray) -> float:
    """PRR (Malinin and Gales 2021, Section 5): how much of what an oracle gains by rejecting errors the score gains.

    Answers are rejected from the smallest score on; the curve is the share of all answers that are errors and not yet
    rejected, by the share that is rejected. The ratio of the areas that the score and an oracle have below the
    straight line of rejection at random: 1 for an oracle, 0 at random. For right or wrong it equals 2 AUROC - 1.

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: float64[N], 1 for right.

    Returns:
        NaN where all are right or all are wrong.
    """
    labels = np.asarray(labels, dtype=np.float64)
    if labels.min() == labels.max():
        return math.nan

    def area(by: np.ndarray) -> float:
        left = np.concatenate([[0.0], np.cumsum(_errors_by_score(by, labels))]) / len(labels)
        return float(np.trapezoid(left, dx=1 / len(labels)))

    at_random = (1 - labels.mean()) / 2
    return (at_random - area(score)) / (at_random - area(labels))


def length_audit(score: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """What of an AUROC is length: a label whose errors go with length favours scores that do (arXiv:2504.13677).

    Args:
        score: float64[N], larger for answers that are thought to be right.
        labels: bool[N], whether they are.
        lengths: float64[N], tokens of the answers.

    Returns:
        length_score_spearman, length_label_spearman; auroc; auroc_length, that of the length alone; and
        auroc_within_length, the mean over groups of answers of like length, weighted by their pairs of a right and a
        wrong answer. NaN where undefined.
    """
    labels, lengths = np.asarray(labels, dtype=bool), np.asarray(lengths, dtype=np.float64)
    strata = np.minimum((rankdata(lengths, method="average") - 1) * STRATA // max(1, len(lengths)), STRATA - 1)
    areas, pairs = [], []
    for stratum in np.unique(strata):
        own = strata == stratum
        right = int(labels[own].sum())
        if number := right * (int(own.sum()) - right):
            areas.append(auroc(np.asarray(score)[own], labels[own]))
            pairs.append(number)
    return {
        "length_score_spearman": rank_correlation(lengths, score),
        "length_label_spearman": rank_correlation(lengths, labels.astype(np.float64)),
        "auroc": auroc(score, labels),
        "auroc_length": auroc(-lengths, labels),
        "auroc_within_length": float(np.average(areas, weights=pairs)) if pairs else math.nan,
    }
