"""Whether confidences are frequencies: smooth calibration error, points of a diagram, a proper score.

Labels are 1 for right and 0 for wrong, or a share of people in between: the label is then the answer of one of them
drawn at random, and its expectation stands for it.
"""

import numpy as np
import pandas as pd
from scipy.fft import dct, idct

BINS = 10
EDGES = np.linspace(0, 1, BINS + 1)
GRID = 512
"""Points on [0, 1] that residuals are smoothed on."""


def calibration_bins(confidence: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """The filled ones of BINS bins of equal width, [0, 1/B], (1/B, 2/B], ...: size, mean confidence and frequency."""
    place = np.searchsorted(EDGES[1:-1], confidence)
    table = pd.DataFrame({"size": 1, "confidence": confidence, "frequency": labels}).groupby(place)
    return table.agg({"size": "sum", "confidence": "mean", "frequency": "mean"}).reset_index(drop=True)


def smooth_calibration_error(
    confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """SmoothECE (Blasiok and Nakkiran, arXiv:2309.12236): no bins, and a bandwidth that the data choose.

    smECE_s = integral of |mean_i of (y_i - f_i) K_s(t, f_i)| dt with a Gaussian K reflected at 0 and 1, at the s that
    it is equal to. The reflected kernel is the heat kernel with closed ends, which the cosine transform turns into a
    product.

    Args:
        confidence: float64[..., N] in [0, 1].
        labels: float64[..., N] in [0, 1].
        weights: float64[..., N], how often each prediction counts; None for once.

    Returns:
        float64[...], to 1e-6.
    """
    residuals = np.asarray(labels, dtype=np.float64) - np.asarray(confidence, dtype=np.float64)
    weights = np.ones(residuals.shape) if weights is None else np.broadcast_arrays(weights, residuals)[0]
    residuals, sizes = residuals * weights, weights.sum(axis=-1)
    place = np.minimum((np.broadcast_to(confidence, residuals.shape) * GRID).astype(np.int64), GRID - 1)
    # Sums by place, a row for each of the leading axes.
    rows = np.arange(sizes.size).reshape(*sizes.shape, 1)
    sums = np.bincount((rows * GRID + place).ravel(), residuals.ravel(), minlength=sizes.size * GRID)
    modes = dct(sums.reshape(*sizes.shape, GRID) / sizes[..., None], type=2)
    frequencies = np.pi * np.arange(GRID)
    # smECE_s - s falls with s: from the sum of |residuals| at s = 0 to below 0 at s = 1.
    low, high = np.zeros(sizes.shape), np.ones(sizes.shape)
    for _ in range(21):
        middle = (low + high) / 2
        smoothed = idct(modes * np.exp(-((frequencies * middle[..., None]) ** 2) / 2), type=2)
        above = np.abs(smoothed).sum(axis=-1) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(np.abs(modes).max(axis=-1) > 0, (low + high) / 2, 0.0)


def unbiased_brier_score(counts: np.ndarray, label_law: np.ndarray) -> np.ndarray:
    """Multi-class Brier score of a sampled law, unbiased by its n answers: float64[...] between 0 and 2.

    1 - 2 sum_k h_k n_k / n + sum_k n_k (n_k - 1) / (n (n - 1)) for counts int[..., K], at least two, and the law h of
    the label, float64[..., K]. Strictly proper: no model gains by damaging its law.
    """
    counts = np.asarray(counts, dtype=np.float64)
    size = counts.sum(axis=-1)
    pairs = (counts * (counts - 1)).sum(axis=-1) / (size * (size - 1))
    return 1 - 2 * (counts * label_law).sum(axis=-1) / size + pairs
