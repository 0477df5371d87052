"""What the hard-target loss asks for in the limit of many samples: its optimum is a law, not always the target.

Writing a loss as sum_y P(y) c(y) sum_i -log p(t_i | t_<i), the optimum at a prefix s gives token t the share
W(st) / W(s) with W(s) = sum_{y through s} P(y) c(y). The product along y telescopes: the optimum is the law
proportional to P(y) c(y). It is P where c is constant.
"""

import numpy as np


def completion_mean_optimum(probabilities: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Of Eq. 4, a mean over each string's tokens: proportional to P(y) / |y|, so that short strings gain.

    Args:
        probabilities: float64[M], the target P.
        lengths: int64[M], tokens of each string, its terminator included.

    Returns:
        float64[M], sums to 1.
    """
    return _normalised(probabilities / lengths)


def token_mean_optimum(probabilities: np.ndarray, lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """Of Algorithm 2, line 14, one mean over the tokens of a batch: proportional to P(y) E[1 / (|y| + S)].

    S is the number of tokens of the other ``batch_size`` - 1 strings, here of the same law. With one string this is
    ``completion_mean_optimum``, and the tilt falls as 1 / ``batch_size``.

    Args:
        probabilities: float64[M], the target P.
        lengths: int64[M], tokens of each string, its terminator included.
        batch_size: Strings that share one mean.

    Returns:
        float64[M], sums to 1.
    """
    of_length = np.bincount(lengths, weights=probabilities)
    others = np.array([1.0])
    for _ in range(batch_size - 1):
        others = np.convolve(others, of_length)
    totals = lengths[:, None] + np.arange(len(others))
    return _normalised(probabilities * (others / totals).sum(axis=1))


def _normalised(mass: np.ndarray) -> np.ndarray:
    return mass / mass.sum()
