"""Measures of a model's uncertainty about a question: from its sampled answers, and from the law of the next token.

Those of arXiv:2508.08204, larger for a less certain model. Logarithms are natural.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import entr

TOP_K = 10
NUCLEUS = 0.9
SAMPLED = ("semantic_entropy", "top_class_uncertainty", "laplacian_eigenvalues")
OF_FIRST_TOKEN = ("first_token_entropy", "top_10_entropy", "nucleus_90_entropy")
OF_PROBABILITIES = (*OF_FIRST_TOKEN, "choice_entropy", "mean_token_entropy")
MEASURES = (*SAMPLED, *OF_PROBABILITIES)
"""Chosen beforehand: with all that have been proposed, some correlate with anything."""


def relative_entropy(law: np.ndarray) -> float:
    """H / ln n of float64[n], normalised first; 0 for one outcome."""
    law = np.asarray(law, dtype=np.float64)
    return float(entr(law / law.sum()).sum() / math.log(len(law))) if len(law) > 1 else 0.0


def first_token_measures(law: np.ndarray, entropy: float, vocabulary: int) -> dict[str, float]:
    """OF_FIRST_TOKEN: H / ln V, and the entropies of the TOP_K most probable tokens and of the nucleus, renormalised.

    Of the most probable tokens' law float64[K], the entropy of the whole in nats, and its number of tokens V. The
    nucleus has the most probable ones, each while the probability before it is below NUCLEUS.
    """
    kept = np.sort(np.asarray(law, dtype=np.float64))[::-1]
    ordered = np.append(kept, np.zeros(TOP_K)) / kept.sum()
    size = int((np.append(0.0, np.cumsum(ordered)[:-1]) < NUCLEUS).sum())
    values = entropy / math.log(vocabulary), relative_entropy(ordered[:TOP_K]), relative_entropy(ordered[:size])
    return dict(zip(OF_FIRST_TOKEN, values, strict=True))


def lexical_similarities(answers: Sequence[Sequence[str]]) -> np.ndarray:
    """ROUGE-L F1 of all pairs of n answers, lists of words: float64[n, n]."""
    return np.array([[longest_common_share(first, second) for second in answers] for first in answers])


def longest_common_share(first: Sequence[str], second: Sequence[str]) -> float:
    """ROUGE-L F1 of two lists of words: twice their longest common subsequence over their lengths; 1 for two empty."""
    if not first or not second:
        return float(len(first) == len(second))
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, start=1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return 2 * row[-1] / (len(first) + len(second))


def laplacian_eigenvalues(similarity: np.ndarray) -> float:
    """Sum of max(0, 1 - e) over eigenvalues e of the normalised graph Laplacian of similarities float64[n, n].

    It counts clusters of answers (Lin, Trivedi and Sun, arXiv:2305.19187).
    """
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    laplacian = np.eye(len(similarity)) - scale[:, None] * similarity * scale[None]
    return float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())
