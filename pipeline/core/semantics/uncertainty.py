"""Measures of a model's uncertainty at inference: from the law of the next token, and from sampled answers.

Those of arXiv:2508.08204, larger for a less certain model but for the log-probabilities. Logarithms are natural.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import entr

TOP_K = (5, 10, 25, 50, 100)
TOP_P = (0.95, 0.9, 0.75, 0.5)


def _relative_entropy(law: np.ndarray) -> float:
    """H / ln n of float64[n], normalised first; 0 for one outcome."""
    law = np.asarray(law, dtype=np.float64)
    return float(entr(law / law.sum()).sum() / math.log(len(law))) if len(law) > 1 else 0.0


def nucleus_size(law: np.ndarray, mass: float) -> int:
    """Tokens in the nucleus: the most probable ones, each while the probability before it is below ``mass``.

    Args:
        law: float64[V], sums to 1.
        mass: In (0, 1].
    """
    before = np.concatenate([[0.0], np.cumsum(np.sort(law)[::-1])[:-1]])
    return int((before < mass).sum())


def token_measures(law: np.ndarray) -> dict[str, float]:
    """Measures of one law of the next token.

    Args:
        law: float64[V], sums to 1; V at least 2.

    Returns:
        total_entropy, H / ln V; log_top_probability, nats; top_k_entropy_K, of the K most probable tokens
        renormalised, / ln K; top_p_entropy_P, of the nucleus renormalised, / ln of its size; nucleus_size_P.
    """
    ordered = np.sort(np.asarray(law, dtype=np.float64))[::-1]
    found = {
        "total_entropy": _relative_entropy(ordered),
        "log_top_probability": math.log(ordered[0]),
        **{f"top_k_entropy_{k}": _relative_entropy(ordered[:k]) for k in TOP_K},
    }
    for mass in TOP_P:
        size = nucleus_size(ordered, mass)
        found |= {f"top_p_entropy_{mass:g}": _relative_entropy(ordered[:size]), f"nucleus_size_{mass:g}": float(size)}
    return found


def choice_measures(law: np.ndarray, spellings: Sequence[Sequence[int]]) -> dict[str, float]:
    """Measures of the law over the options of a multiple-choice question.

    Args:
        law: float64[V], of the next token.
        spellings: Ids of the single tokens that stand for each option ("A", " A", "(A", "a"); two options at least.

    Returns:
        choice_entropy, of the options' summed probabilities renormalised, / ln n; log_top_choice, nats;
        choice_mass, the probability of all options together. The first two are NaN where that is 0.

    Raises:
        ValueError: A token stands for two options, or there is one option only.
    """
    ids = [token for tokens in spellings for token in set(tokens)]
    if len(spellings) < 2 or len(set(ids)) < len(ids):
        raise ValueError(f"options need tokens of their own, two options at least, got {list(map(list, spellings))}")
    masses = np.array([np.asarray(law, dtype=np.float64)[sorted(set(tokens))].sum() for tokens in spellings])
    total = float(masses.sum())
    if total <= 0:
        return {"choice_entropy": math.nan, "log_top_choice": math.nan, "choice_mass": 0.0}
    return {
        "choice_entropy": _relative_entropy(masses),
        "log_top_choice": math.log(masses.max() / total),
        "choice_mass": total,
    }


def lexical_similarities(answers: Sequence[Sequence[str]]) -> np.ndarray:
    """ROUGE-L F1 of all pairs of n answers, lists of words: float64[n, n]; of equal answers it is taken once."""
    texts = [tuple(words) for words in answers]
    names = list(dict.fromkeys(texts))
    found = np.eye(len(names))
    for place, other in itertools.combinations(range(len(names)), 2):
        found[place, other] = found[other, place] = longest_common_share(names[place], names[other])
    places = [names.index(words) for words in texts]
    return found[np.ix_(places, places)]


def similarity_measures(similarity: np.ndarray) -> dict[str, float]:
    """Measures of the similarities of sampled answers (Lin, Trivedi and Sun, arXiv:2305.19187).

    Args:
        similarity: float64[n, n] in [0, 1], symmetric, 1 on the diagonal; n at least 2.

    Returns:
        lexical_similarity, the mean over pairs; laplacian_eigenvalues, sum over eigenvalues e of the normalised graph
        Laplacian of max(0, 1 - e), which counts the clusters.
    """
    similarity = np.asarray(similarity, dtype=np.float64)
    size = len(similarity)
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    laplacian = np.eye(size) - scale[:, None] * similarity * scale[None]
    return {
        "lexical_similarity": float((similarity.sum() - np.trace(similarity)) / (size * (size - 1))),
        "laplacian_eigenvalues": float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum()),
    }


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
