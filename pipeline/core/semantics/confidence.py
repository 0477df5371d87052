"""How sure a model is of its most frequent class of answers, from samples (arXiv:2511.04869; Sem-ECE)."""

import numpy as np

SPLITS = 10
"""Random halvings behind ``held_out_confidence``."""


def modal_class(counts: np.ndarray, rng: np.random.Generator) -> int:
    """Index of the most frequent class, one at random of several; ``counts`` is int[K] with at least one answer."""
    return int(rng.choice(np.flatnonzero(counts == counts.max())))


def modal_confidence(counts: np.ndarray) -> float:
    """Sem1: share of the most frequent class, max_k n_k / n; its expectation is above the class's probability.

    Args:
        counts: int[K], answers by class; at least one.
    """
    counts = np.asarray(counts)
    return float(counts.max() / counts.sum())


def held_out_confidence(counts: np.ndarray, rng: np.random.Generator, splits: int = SPLITS) -> float:
    """Sem2: share of one half of the answers in the class that is most frequent in the other half.

    The mean over random halvings without replacement. The class is chosen on other answers than it is counted on, so
    the share is an unbiased estimate of the probability of the chosen class. Of an odd number the half that chooses is
    the smaller one.

    Args:
        counts: int[K], answers by class; at least two.
        rng: Of the halvings and of ties.
        splits: Halvings.

    Raises:
        ValueError: There are fewer than two answers.
    """
    counts = np.asarray(counts, dtype=np.int64)
    size = int(counts.sum())
    if size < 2:
        raise ValueError(f"half of {size} answers chooses no class; at least 2 are needed")
    chosen = rng.multivariate_hypergeometric(counts, size // 2, size=splits)
    # A number below 1 for each class breaks ties at random.
    modal = (chosen + rng.random(chosen.shape)).argmax(axis=1)
    rest = counts - chosen
    return float((rest[np.arange(splits), modal] / (size - size // 2)).mean())
