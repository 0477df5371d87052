"""Whether confidences are frequencies: binned and smooth calibration error, Brier score, consistency bands.

Labels are 1 for right and 0 for wrong, or a share of people in between: the label is then the answer of one of them
drawn at random, and its expectation stands for it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq, isotonic_regression

BINS = 10
GRID = 2048
"""Points on [0, 1] that residuals are smoothed on."""


@dataclass(frozen=True)
class Bins:
    """The points of a reliability diagram.

    Attributes:
        edges: float64[B + 1], ascending.
        sizes: int64[B], predictions in each bin.
        confidence: float64[B], their mean confidence; NaN in an empty bin.
        frequency: float64[B], their mean label; NaN in an empty bin.
    """

    edges: np.ndarray
    sizes: np.ndarray
    confidence: np.ndarray
    frequency: np.ndarray

    @property
    def error(self) -> float:
        """ECE: sum over bins of their share of the predictions times |frequency - confidence|."""
        filled = self.sizes > 0
        gaps = np.abs(self.frequency[filled] - self.confidence[filled])
        return float((self.sizes[filled] * gaps).sum() / self.sizes.sum())


def calibration_bins(
    confidence: np.ndarray, labels: np.ndarray, kind: Literal["width", "mass"] = "width", bins: int = BINS
) -> Bins:
    """Predictions in bins of equal width or of equal numbers; equal confidences are always in one bin.

    Args:
        confidence: float64[N] in [0, 1], N at least 1.
        labels: float64[N] in [0, 1].
        kind: "width": [0, 1/B], (1/B, 2/B], ...; "mass": between quantiles of the confidences, of which equal ones
            leave fewer bins (as in scikit-learn's ``calibration_curve``).
        bins: Number of bins, B.
    """
    confidence, labels = np.asarray(confidence, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    edges = np.linspace(0, 1, bins + 1)
    if kind == "mass":
        edges = np.unique(np.quantile(confidence, edges))
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    sizes = np.bincount(place, minlength=max(1, len(edges) - 1))
    with np.errstate(invalid="ignore"):
        means = [np.bincount(place, values, minlength=len(sizes)) / sizes for values in (confidence, labels)]
    return Bins(edges, sizes, *means)


def smooth_calibration_error(confidence: np.ndarray, labels: np.ndarray) -> float:
    """SmoothECE (Blasiok and Nakkiran, arXiv:2309.12236): no bins, and a bandwidth that the data choose.

    Residuals label - confidence are smoothed over [0, 1] by a Gaussian kernel that is reflected at both ends:
    smECE_s = integral of |mean_i of (y_i - f_i) K_s(t, f_i)| dt, at the s with smECE_s = s. The reflected kernel is
    the heat kernel with closed ends, which the cosine transform turns into a product.

    Args:
        confidence: float64[N] in [0, 1], N at least 1.
        labels: float64[N] in [0, 1].
    """
    confidence, labels = np.asarray(confidence, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    place = np.minimum((confidence * GRID).astype(np.int64), GRID - 1)
    residuals = np.bincount(place, (labels - confidence) / len(confidence), minlength=GRID)
    modes, frequencies = dct(residuals, type=2), np.pi * np.arange(GRID)

    def smoothed(width: float) -> float:
        return float(np.abs(idct(modes * np.exp(-((frequencies * width) ** 2) / 2), type=2)).sum())

    # It falls with the width, from the sum of |residual| at a place to |mean residual|.
    return float(brentq(lambda width: smoothed(width) - width, 0.0, 1.0, xtol=1e-6)) if smoothed(0.0) > 0 else 0.0


def brier_score(confidence: np.ndarray, labels: np.ndarray) -> float:
    """Mean squared difference of confidences float64[N] and labels float64[N] (Brier 1950)."""
    return float(np.square(np.asarray(confidence) - np.asarray(labels)).mean())


def refinement(confidence: np.ndarray, labels: np.ndarray) -> float:
    """The part of the Brier score that recalibration leaves: that of the best non-decreasing map of the confidences.

    The rest is miscalibration (Dimitriadis, Gneiting and Jordan 2021). Pools adjacent violators; equal confidences
    get one value.

    Args:
        confidence: float64[N], N at least 1.
        labels: float64[N] in [0, 1].
    """
    values, place = np.unique(np.asarray(confidence, dtype=np.float64), return_inverse=True)
    sizes = np.bincount(place, minlength=len(values))
    means = np.bincount(place, labels, minlength=len(values)) / sizes
    return brier_score(isotonic_regression(means, weights=sizes).x[place], labels)


def consistency_band(
    confidence: np.ndarray,
    rng: np.random.Generator,
    kind: Literal["width", "mass"] = "width",
    replicates: int = 200,
    bins: int = BINS,
) -> tuple[np.ndarray, np.ndarray]:
    """Where 95% of a calibrated predictor's frequencies lie in each bin (Bröcker and Smith 2007).

    Args:
        confidence: float64[N]; labels are drawn from Bernoulli laws with these probabilities.
        rng: Of the labels.
        kind: As for ``calibration_bins``.
        replicates: Redrawn sets of labels.
        bins: Number of bins.

    Returns:
        float64[B] lower and upper ends; NaN in empty bins.
    """
    confidence = np.asarray(confidence, dtype=np.float64)
    drawn = rng.random((replicates, len(confidence))) < confidence
    found = np.stack([calibration_bins(confidence, labels, kind, bins).frequency for labels in drawn])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return low, high
