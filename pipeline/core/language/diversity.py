"""Diversity of a sample of answers: distinct ones at a common sample size, entropy in nats, effective number."""

import math

import numpy as np
from scipy.special import digamma, gammaln


def expected_distinct(counts: np.ndarray, num_samples: int, size: int) -> float:
    """Expected number of distinct answers among ``size`` of the samples (Hurlbert 1971): sum of 1 - C(N - count, size)
    / C(N, size). Samples without an answer are drawn too and add nothing."""
    counts = np.asarray(counts, dtype=np.int64)
    if size == num_samples:
        return float((counts > 0).sum())
    others = num_samples - counts
    # More samples than the others there are: the answer is among them.
    certain = others < size
    others = others[~certain]
    missed = gammaln(others + 1) - gammaln(others - size + 1) - gammaln(num_samples + 1)
    missed += gammaln(num_samples - size + 1)
    return float(certain.sum() - np.expm1(missed).sum())


def plug_in_entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the empirical law; NaN without answers. Biased downwards."""
    counts = np.asarray(counts, dtype=np.float64)
    counts = counts[counts > 0]
    if not len(counts):
        return math.nan
    shares = counts / counts.sum()
    return float((shares * np.log(1 / shares)).sum())


def unseen_entropy(singletons: int, doubletons: int, size: int) -> float:
    """The part of the Chao-Wang-Jost estimate for answers too rare to be sampled well: (f1 / n) (1 - A)^(1 - n) (-log A
    - sum_{r < n} (1 - A)^r / r), nats, of f1 answers given once among n and the estimated mean probability A of those
    (Good and Turing). It is summed from r = n on unless A is small; 0 without singletons, and where A is 1."""
    if not singletons or (singletons == 1 and not doubletons):
        return 0.0
    share = 2 * doubletons / ((size - 1) * singletons + 2 * doubletons)
    if not doubletons:
        share = 2 / ((size - 1) * (singletons - 1) + 2)
    log_rest = math.log1p(-share)
    if size * share <= 1:
        depths = np.arange(1, size)
        bracket = -math.log(share) - (np.exp(depths * log_rest) / depths).sum()
        return float(singletons / size * math.exp((1 - size) * log_rest) * bracket)
    # Terms behind these are below exp(-40) of the first one.
    steps = np.arange(1, math.ceil(40 / -log_rest) + 2)
    return float(singletons / size * (np.exp(steps * log_rest) / (size - 1 + steps)).sum())


def chao_wang_jost_entropy(counts: np.ndarray) -> float:
    """Entropy in nats, corrected for the sample's size n (Chao, Wang and Jost 2013): sum over counts X of (X / n)
    (sum_{k=X}^{n-1} 1 / k), plus ``unseen_entropy``; it may exceed log n. NaN with fewer than two samples."""
    counts = np.asarray(counts, dtype=np.int64)
    counts = counts[counts > 0]
    size = int(counts.sum())
    if size < 2:
        return math.nan
    seen = (counts / size * (digamma(size) - digamma(counts))).sum()
    return float(seen) + unseen_entropy(int((counts == 1).sum()), int((counts == 2).sum()), size)
