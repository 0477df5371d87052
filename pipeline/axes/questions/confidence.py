"""How sure a model is of its most frequent class of answers, from samples (arXiv:2511.04869; Sem-ECE)."""

import numpy as np

SPLITS = 10
"""Random halvings behind ``held_out_confidence``."""


def modal_class(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Index int64[...] of the most frequent class of counts int[..., K], one at random of several."""
    # A number below 1 for each class breaks ties.
    return (counts + rng.random(np.shape(counts))).argmax(axis=-1)


def held_out_confidence(counts: np.ndarray, rng: np.random.Generator, splits: int = SPLITS) -> np.ndarray:
    """Sem2: share of one half of the answers in the class that is most frequent in the other half, float64[...].

    The mean over random halvings of counts int[..., K]: the class is chosen on other answers than it is counted on, so
    the share is unbiased. Of an odd number the half that chooses is the smaller one. Raises ValueError for fewer than
    two.
    """
    counts = np.asarray(counts, dtype=np.int64)[..., None, :]
    size = counts.sum(axis=-1)
    if (size < 2).any():
        raise ValueError(f"half of {size.min()} answers chooses no class; at least 2 are needed")
    chosen = np.zeros((*counts.shape[:-2], splits, counts.shape[-1]), dtype=np.int64)
    others, wanted = size, size // 2
    # One class after the other: what numpy's multivariate law does for a single row of counts.
    for place in range(counts.shape[-1]):
        others = others - counts[..., place]
        chosen[..., place] = rng.hypergeometric(counts[..., place], others, wanted, size=chosen.shape[:-1])
        wanted = wanted - chosen[..., place]
    found = np.take_along_axis(counts - chosen, modal_class(chosen, rng)[..., None], axis=-1)[..., 0]
    return (found / (size - size // 2)).mean(axis=-1)
