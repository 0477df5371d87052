"""How near a model's law over answers is to people's (arXiv:2509.23088), and how near people are to one another."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import rel_entr

from pipeline.core.language.diversity import chao_wang_jost_entropy
from pipeline.axes.questions.question import aligned

SMOOTHING = 0.5
"""Added to every count behind the KL divergence (Krichevsky and Trofimov 1981)."""
BAND_REPLICATES = 200
"""Pairs of samples behind the band of people against people."""


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Half the L1 distance of laws float64[..., K]; float64[...] in [0, 1]."""
    return np.abs(np.asarray(first) - np.asarray(second)).sum(axis=-1) / 2


def jensen_shannon(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence in bits of laws float64[..., K] (Lin 1991); float64[...] in [0, 1]."""
    middle = (np.asarray(first) + np.asarray(second)) / 2
    nats = (rel_entr(first, middle) + rel_entr(second, middle)).sum(axis=-1) / 2
    return np.maximum(nats, 0.0) / math.log(2)


def smoothed_divergence(first: np.ndarray, second: np.ndarray, smoothing: float = SMOOTHING) -> np.ndarray:
    """KL divergence in nats, float64[...], of the law of the second counts from that of the first, both smoothed.

    Args:
        first: int[..., K], counts by class, e.g. of people.
        second: int[..., K], counts over the same classes, e.g. of a model's answers.
        smoothing: Added to every count, above 0: no class has probability 0.
    """
    smoothed = [np.asarray(counts, dtype=np.float64) + smoothing for counts in (first, second)]
    return rel_entr(*(counts / counts.sum(axis=-1, keepdims=True) for counts in smoothed)).sum(axis=-1)


def agreement(people: Mapping[str, int], model: Mapping[str, int]) -> dict[str, float]:
    """Agreement of a model with people on one question.

    Entropies are in nats, corrected for the number of answers (Chao, Wang and Jost 2013).

    Args:
        people: People by class, OTHER included; at least one.
        model: Answers by class, those in no class of people's under OTHER; at least one.

    Returns:
        human_tv; human_js_bits; human_kl_nats, of the model from people; people_entropy_nats and model_entropy_nats,
        and entropy_gap_nats, the model's less people's; human_recall, the share of people whose class the model
        answered at least once; same_top_answer, 1 where one most frequent class is shared.
    """
    first, second = aligned(people, model)
    laws = first / first.sum(), second / second.sum()
    entropies = [chao_wang_jost_entropy(counts) for counts in (first, second)]
    return {
        "human_tv": float(total_variation(*laws)),
        "human_js_bits": float(jensen_shannon(*laws)),
        "human_kl_nats": float(smoothed_divergence(first, second)),
        "people_entropy_nats": entropies[0],
        "model_entropy_nats": entropies[1],
        "entropy_gap_nats": entropies[1] - entropies[0],
        "human_recall": float(laws[0][second > 0].sum()),
        "same_top_answer": float(((first == first.max()) & (second == second.max())).any()),
    }


def people_against_people(
    people: np.ndarray, size: int, rng: np.random.Generator, replicates: int = BAND_REPLICATES
) -> dict[str, np.ndarray]:
    """Agreement of people with a perfect stand-in for them, which answers by their own law.

    Both samples are drawn anew from the law of the people who were asked: as many as they are, and ``size``. No model
    can be told from people by a distance within this band.

    Args:
        people: int[K], people by class; at least one.
        size: Answers of the stand-in.
        rng: Of the samples.
        replicates: Pairs of samples, R.

    Returns:
        human_tv, human_js_bits and human_kl_nats, float64[R] each.
    """
    people = np.asarray(people, dtype=np.int64)
    law = people / people.sum()
    samples = [rng.multinomial(number, law, size=replicates) for number in (int(people.sum()), size)]
    laws = [drawn / drawn.sum(axis=1, keepdims=True) for drawn in samples]
    return {
        "human_tv": total_variation(*laws),
        "human_js_bits": jensen_shannon(*laws),
        "human_kl_nats": smoothed_divergence(*samples),
    }
