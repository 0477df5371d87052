"""Do different prompts' samples share a random stream?

The public artifact of arXiv:2605.11845 draws every prompt's samples from one seed stream: sample i of all prompts
uses the same random numbers, so a split of 18 prompts holds far less than 18 independent samples. That shows in
the PITs: those of the same sample index are then alike across prompts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PERMUTATIONS = 999


@dataclass(frozen=True)
class StreamCorrelation:
    """Mean correlation of prompts' PITs by sample index.

    Attributes:
        correlation: Mean over pairs of prompts and the indices that both have; NaN with fewer than two prompts.
        p_value: Two-sided permutation p-value of independence, at least 1 / (permutations + 1), over the permutations
            that have a correlation.
        standard_error: Standard deviation of the correlation over the permutations.
        num_pairs: Pairs of prompts with a common sample index.
    """

    correlation: float
    p_value: float
    standard_error: float
    num_pairs: int

    @property
    def interval(self) -> tuple[float, float]:
        """The correlation plus and minus 1.96 standard errors under independence."""
        return self.correlation - 1.96 * self.standard_error, self.correlation + 1.96 * self.standard_error


def _mean_correlation(scores: np.ndarray, present: np.ndarray) -> float:
    """Mean product over pairs of different rows in the same column, of those with both present; NaN without any."""
    sums, counts = scores.sum(axis=0), present.sum(axis=0)
    pairs = counts @ (counts - 1)
    return float((sums @ sums - (scores * scores).sum()) / pairs) if pairs else math.nan


def stream_correlation(
    pits: np.ndarray, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> StreamCorrelation:
    """Test that the PITs of different prompts at the same sample index are uncorrelated.

    Every prompt's PITs are standardised by its own mean and standard deviation. Under independence of prompts and
    exchangeability of each prompt's samples, shuffling the samples of every prompt by itself changes nothing but
    the order; the p-value is the share of shuffles with an average correlation at least as far from 0 (the
    observed order counts as one; Phipson and Smyth 2010).

    ``pits``: float64[P, N] by prompt and sample index, NaN where the sample is invalid. The result is NaN where no two
    prompts have a valid sample at the same index.
    """
    present = np.isfinite(pits)
    present &= (present.sum(axis=1) > 1)[:, None]
    sizes = np.maximum(present.sum(axis=1, keepdims=True), 1)
    centred = np.where(present, pits - np.where(present, pits, 0).sum(axis=1, keepdims=True) / sizes, 0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / sizes)
    scores = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    together = present.astype(np.int64) @ present.T.astype(np.int64)
    num_pairs = int((np.triu(together, 1) > 0).sum())
    if not num_pairs:
        return StreamCorrelation(math.nan, math.nan, math.nan, 0)
    observed = _mean_correlation(scores, present)
    # Shuffled together: an invalid sample keeps its place in the order.
    both, drawn = scores + 1j * present, np.empty(permutations)
    for k in range(permutations):
        shuffled = rng.permuted(both, axis=1)
        drawn[k] = _mean_correlation(shuffled.real, shuffled.imag)
    # Where hardly any answer is valid, a shuffle may leave no two prompts with one at the same index.
    drawn = drawn[np.isfinite(drawn)]
    extreme = int((np.abs(drawn) >= abs(observed) - 1e-12).sum())
    spread = float(drawn.std(ddof=1)) if len(drawn) > 1 else math.nan
    return StreamCorrelation(observed, (extreme + 1) / (len(drawn) + 1), spread, num_pairs)


def first_pits(valid: np.ndarray, pits: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """float64[generations], PIT of the first answer in each, NaN where it is invalid.

    A generation with several answers stands for its first one: answers of one reply depend on each other, and their
    order may be one that all prompts share. ``valid`` is bool[answers], ``pits`` float64[valid answers], and ``sizes``
    are the answers in each generation.
    """
    every = np.full(len(valid), math.nan)
    every[valid] = pits
    return every[np.cumsum([0, *sizes])[:-1]]
