"""Inv-Entropy and its relatives (arXiv:2506.09684): a question, its perturbations, and one answer to each.

States are the question x_0 and its perturbations x_1 to x_n. Similarities of the prompts, and those of the answers,
each make a Markov chain on them, P_x and P_y; Inv-Entropy is the entropy of the diagonal c of P_y P_x, how a walk goes
from answers back to prompts: - sum of c ln c, in nats.

Identical answers give the entropy of a uniform start after one step of P_x, so the excess over that is what the answers
add: exactly 0 where they are all the same. (ln(n + 1) is that only where P_x is doubly stochastic.) The excess grows
with the answers' dispersion only while the terms are below 1 / e; near paraphrases leave little room.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import entr

GRAM = 3
RISE = 1e-9
"""What an uncertainty must rise by to count; less is rounding."""


def ngram_counts(texts: Sequence[str]) -> np.ndarray:
    """How often each run of GRAM characters is in each of n texts, float64[n, g]: a stand-in for embeddings."""
    places: dict[str, int] = {}
    rows = []
    for text in texts:
        padded = f" {' '.join(text.lower().split())} "
        grams = [padded[start : start + GRAM] for start in range(len(padded) - GRAM + 1)]
        rows.append([places.setdefault(gram, len(places)) for gram in grams])
    return np.array([np.bincount(row, minlength=len(places)) for row in rows], dtype=np.float64)


def cosine_similarities(vectors: np.ndarray) -> np.ndarray:
    """|cosine| of all pairs of n embeddings, float64[n, d]: float64[n, n], 1 on the diagonal.

    (1 + cosine) / 2 of counts is never below 1/2, which leaves the measures no room."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    found = np.clip(np.abs(unit @ unit.T), 0, 1)
    np.fill_diagonal(found, 1)
    return found


def transitions(similarity: np.ndarray) -> np.ndarray:
    """Transition probabilities in proportion to similarities float64[..., m, m], above 0 on the diagonal."""
    return similarity / np.sum(similarity, axis=-1, keepdims=True)


def dispersion(similarity: np.ndarray) -> np.ndarray:
    """1 less the mean similarity of two different states of float64[..., m, m], 1 on the diagonal."""
    similarity = np.asarray(similarity, dtype=np.float64)
    size = similarity.shape[-1]
    pairs = similarity.sum(axis=(-2, -1)) - np.trace(similarity, axis1=-2, axis2=-1)
    return 1 - pairs / (size * (size - 1))


def measures(inputs: np.ndarray, outputs: np.ndarray) -> dict[str, np.ndarray]:
    """inv_entropy_nats, excess_nats and output_dispersion, float64[...] each.

    Args:
        inputs: Similarities of the m prompts, float64[m, m].
        outputs: Those of one answer to each, float64[..., m, m].
    """
    forward, backward = transitions(inputs), transitions(outputs)
    inverse = np.einsum("...ij,ji->...i", backward, forward)
    found = entr(inverse).sum(axis=-1)
    alike = entr(forward.mean(axis=0)).sum()
    return {"inv_entropy_nats": found, "excess_nats": found - alike, "output_dispersion": dispersion(outputs)}


def mean_measures(
    inputs: np.ndarray, answers: np.ndarray, similarity: np.ndarray, *, draws: int, rng: np.random.Generator
) -> dict[str, float]:
    """Means of ``measures`` over draws of one answer to each of m prompts, and input_dispersion.

    ``answers`` says which of t texts each answer is, int[m, r]; ``similarity`` is that of the texts, float64[t, t].
    """
    chosen = rng.integers(answers.shape[1], size=(draws, len(answers)))
    drawn = answers[np.arange(len(answers)), chosen]
    found = measures(inputs, similarity[drawn[:, :, None], drawn[:, None, :]])
    return {
        **{name: float(np.mean(values)) for name, values in found.items()},
        "input_dispersion": float(dispersion(inputs)),
    }


def rises_with_temperature(uncertainty: np.ndarray) -> np.ndarray:
    """bool[...]: whether uncertainty float64[..., k], by ascending temperature, rises strictly; its mean is TSU."""
    return (np.diff(np.asarray(uncertainty, dtype=np.float64), axis=-1) > RISE).all(axis=-1)


def rise_by_chance(temperatures: int) -> float:
    """TSU of a measure that has no ties and ignores the temperature: one order in k!."""
    return 1 / math.factorial(temperatures)
