"""Whether confidences are frequencies: binned and smooth calibration error, a proper score, consistency bands.

Labels are 1 for right and 0 for wrong, or a share of people in between: the label is then the answer of one of them
drawn at random, and its expectation stands for it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct, idct

BINS = 10
GRID = 512
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


def calibration_bins(confidence: np.ndarray, labels: np.ndarray) -> Bins:
    """Predictions in BINS bins of equal width, [0, 1/B], (1/B, 2/B], ...

    Args:
        confidence: float64[N] in [0, 1], N at least 1.
        labels: float64[N] in [0, 1].
    """
    confidence, labels = np.asarray(confidence, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    edges = np.linspace(0, 1, BINS + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    sizes = np.bincount(place, minlength=BINS)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(place, values, minlength=len(sizes)) / sizes for values in (confidence, labels)]
    return Bins(edges, sizes, *means)


def binned_error(confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """ECE in BINS bins of equal width: sum over bins of |mean label - mean confidence| by their share of predictions.

    Arguments and result as for ``smooth_calibration_error``.
    """
    residuals, sizes = _weighted_residuals(confidence, labels, weights)
    place = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], np.broadcast_to(confidence, residuals.shape))
    return np.abs(_sums_by_place(place, residuals, BINS)).sum(axis=-1) / sizes


def smooth_calibration_error(
    confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """SmoothECE (Blasiok and Nakkiran, arXiv:2309.12236): no bins, and a bandwidth that the data choose.

    Residuals label - confidence are smoothed over [0, 1] by a Gaussian kernel that is reflected at both ends:
    smECE_s = integral of |mean_i of (y_i - f_i) K_s(t, f_i)| dt, at the s with smECE_s = s. The reflected kernel is
    the heat kernel with closed ends, which the cosine transform turns into a product.

    Args:
        confidence: float64[..., N] in [0, 1], N at least 1.
        labels: float64[..., N] in [0, 1].
        weights: float64[..., N], how often each prediction counts; None for once.

    Returns:
        float64[...], to 1e-6.
    """
    residuals, sizes = _weighted_residuals(confidence, labels, weights)
    place = np.minimum((np.broadcast_to(confidence, residuals.shape) * GRID).astype(np.int64), GRID - 1)
    modes = dct(_sums_by_place(place, residuals, GRID) / sizes[..., None], type=2)
    frequencies = np.pi * np.arange(GRID)
    # smECE_s - s falls with s: from the sum of |residuals| at s = 0 to below 0 at s = 1.
    low, high = np.zeros(sizes.shape), np.ones(sizes.shape)
    for _ in range(21):
        middle = (low + high) / 2
        smoothed = idct(modes * np.exp(-((frequencies * middle[..., None]) ** 2) / 2), type=2)
        above = np.abs(smoothed).sum(axis=-1) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(np.abs(modes).max(axis=-1) > 0, (low + high) / 2, 0.0)


def _weighted_residuals(
    confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted residuals float64[..., N], and sums of the weights float64[...]."""
    residuals = np.asarray(labels, dtype=np.float64) - np.asarray(confidence, dtype=np.float64)
    weighted = np.ones(residuals.shape) if weights is None else np.broadcast_arrays(weights, residuals)[0]
    return residuals * weighted, weighted.sum(axis=-1)


def _sums_by_place(place: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """float64[..., size] sums of values float64[..., N] by their places int[..., N]."""
    rows = np.arange(values[..., 0].size).reshape(*values.shape[:-1], 1)
    sums = np.bincount((rows * size + place).ravel(), values.ravel(), minlength=values[..., 0].size * size)
    return sums.reshape(*values.shape[:-1], size)


def unbiased_brier_score(counts: np.ndarray, label_law: np.ndarray) -> np.ndarray:
    """Multi-class Brier score of a sampled law, without the bias of its n answers.

    1 - 2 sum_k h_k n_k / n + sum_k n_k (n_k - 1) / (n (n - 1)): the expected squared distance of the law from the
    label, of which h is the law. Strictly proper, so no model gains by damaging its law; between 0 and 2.

    Args:
        counts: int[..., K], answers by class, at least two; answers of no class count as a class each.
        label_law: float64[..., K], probability of each class being the label: 1 for the right one, or shares of people.

    Returns:
        float64[...].
    """
    counts = np.asarray(counts, dtype=np.float64)
    size = counts.sum(axis=-1)
    pairs = (counts * (counts - 1)).sum(axis=-1) / (size * (size - 1))
    return 1 - 2 * (counts * label_law).sum(axis=-1) / size + pairs


def consistency_band(
    confidence: np.ndarray,
    rng: np.random.Generator,
    replicates: int = 200,
    trials: np.ndarray | int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Where 95% of a calibrated predictor's frequencies lie in each bin of equal width (Bröcker and Smith 2007).

    Args:
        confidence: float64[N]; labels are means of draws from Bernoulli laws with these probabilities.
        rng: Of the labels.
        replicates: Redrawn sets of labels.
        trials: int64[N] draws behind each label, or one number for all.

    Returns:
        float64[B] lower and upper ends; NaN in empty bins.
    """
    confidence = np.asarray(confidence, dtype=np.float64)
    drawn = rng.binomial(trials, confidence, size=(replicates, len(confidence))) / trials
    found = np.stack([calibration_bins(confidence, labels).frequency for labels in drawn])
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return low, high
