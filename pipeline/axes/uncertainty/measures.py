"""Measures of a model's uncertainty about a question: from its sampled answers, and from the law of the next token.

Those of arXiv:2508.08204, larger for a less certain model. Logarithms are natural.
"""

import itertools
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
AUDITED = ("semantic_entropy", "first_token_entropy")
"""Those whose AUROC has an audit for length beside it."""
SAMPLED_DECIMALS = 10
"""Equal sets of answers give equal values but for rounding, which differs by processor; ranks would order them."""


def relative_entropy(law: np.ndarray) -> float:
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


def first_token_measures(law: np.ndarray, entropy: float, vocabulary: int) -> dict[str, float]:
    """OF_FIRST_TOKEN: H / ln V, and the entropies of the TOP_K most probable tokens and of the nucleus, renormalised.

    Args:
        law: float64[K], the most probable tokens; those beyond have next to no probability.
        entropy: Of the whole law, nats.
        vocabulary: V, tokens of the whole law.
    """
    kept = np.sort(np.asarray(law, dtype=np.float64))[::-1]
    ordered = np.append(kept, np.zeros(TOP_K)) / kept.sum()
    size = nucleus_size(ordered, NUCLEUS)
    values = entropy / math.log(vocabulary), relative_entropy(ordered[:TOP_K]), relative_entropy(ordered[:size])
    return dict(zip(OF_FIRST_TOKEN, values, strict=True))


def lexical_similarities(answers: Sequence[Sequence[str]]) -> np.ndarray:
    """ROUGE-L F1 of all pairs of n answers, lists of words: float64[n, n]; of equal answers it is taken once."""
    texts = [tuple(words) for words in answers]
    names = list(dict.fromkeys(texts))
    found = np.eye(len(names))
    for place, other in itertools.combinations(range(len(names)), 2):
        found[place, other] = found[other, place] = longest_common_share(names[place], names[other])
    places = [names.index(words) for words in texts]
    return found[np.ix_(places, places)]


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
    """Sum over eigenvalues e of the normalised graph Laplacian of max(0, 1 - e), which counts clusters of answers.

    Lin, Trivedi and Sun (arXiv:2305.19187).

    Args:
        similarity: float64[n, n] in [0, 1], symmetric, 1 on the diagonal; n at least 2.
    """
    similarity = np.asarray(similarity, dtype=np.float64)
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    laplacian = np.eye(len(similarity)) - scale[:, None] * similarity * scale[None]
    return float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())
