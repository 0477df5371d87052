"""Kolmogorov-Smirnov tests of answers against many values of their law, as in UnpredictaBench (arXiv:2606.06622)."""

import numpy as np
from scipy import stats

NUM_ANSWERS = 100  # of a request that are tested, its first readable ones
NUM_REFERENCE = 10_000  # values of the law that they are compared with
LEVEL = 1e-4
"""A request passes with a larger p-value; so a perfect sampler passes in all but this share."""


def passes(answers: np.ndarray, reference: np.ndarray, discrete: bool) -> bool:
    """Whether the first NUM_ANSWERS of float64[n] readable answers agree with float64[m] values of a law; without
    readable answers they do not."""
    tested = answers[:NUM_ANSWERS]
    return len(tested) > 0 and ks_p_value(tested, reference, discrete) > LEVEL


def ks_p_value(answers: np.ndarray, reference: np.ndarray, discrete: bool) -> float:
    """The p-value of the two-sample test; of a continuous law SciPy's exact one, which takes ties for accidents."""
    if discrete:
        return permutation_p_value(answers, reference)
    return float(stats.ks_2samp(answers, reference, method="exact").pvalue)


def permutation_p_value(answers: np.ndarray, reference: np.ndarray) -> float:
    """The share of all ways to choose n of the n + m pooled values that lie at least as far from the rest as the
    answers do: what random permutations estimate. Distinct values are added one by one, in ascending order."""
    n, total = len(answers), len(answers) + len(reference)
    pooled, sizes = np.unique(np.concatenate([answers, reference]), return_counts=True)
    # Distances times n * m are whole numbers, so that equal distances are equal.
    chosen, below = np.arange(n + 1), np.cumsum(sizes)
    own = np.searchsorted(np.sort(answers), pooled, side="right")
    distance = np.abs(own * total - below * n).max()
    # Independent binomial numbers of chosen values are multivariate hypergeometric, given that their sum is n.
    distinct, kinds = np.unique(sizes, return_inverse=True)
    added = stats.binom.pmf(chosen, distinct[:, None], n / total)
    nearer = np.eye(1, n + 1)[0]
    for kind, values in zip(kinds, below, strict=True):
        nearer = np.convolve(nearer, added[kind])[: n + 1] * (np.abs(chosen * total - values * n) < distance)
    return max(0.0, 1.0 - float(nearer[-1] / stats.binom.pmf(n, total, n / total)))
