"""Distinct responses and utility of NoveltyBench (Zhang et al., arXiv:2504.05228; arXiv:2605.11845, Section 4.2):
classes of responses that say the same, and ratings discounted by the patience of a reader who asks again."""

import bisect
import math
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

Pair = tuple[str, str]
SHORT_RESPONSE_WORDS = 5
"""Where both responses have at most so many words, words alone decide."""
RATING_THRESHOLDS = (-7.71875, -6.28125, -6.0, -5.71875, -5.5, -5.0, -4.375, -3.4375, -2.046875)
"""Raw rewards of Skywork-Reward-Gemma-2-27B-v0.2 at which the benchmark's rating goes up by one."""
LIKELIHOOD_RATING_THRESHOLDS = (-2.74, -2.27, -1.95, -1.52, -1.06, -0.59, -0.32, -0.14, -0.08)
"""The same for the stand-in reward, nats per token: the deciles of what the embedded base model's own answers got."""


def short_responses_equal(first: str, second: str) -> bool | None:
    """The benchmark's rule for at most SHORT_RESPONSE_WORDS lower-cased words each, to the letter: whether different
    words in common are at least half the words of the longer response; None where the classifier decides."""
    words = first.lower().split(), second.lower().split()
    longest = max(map(len, words))
    if longest > SHORT_RESPONSE_WORDS:
        return None
    return 2 * len(set(words[0]) & set(words[1])) >= longest


def word_dice(first: str, second: str) -> float:
    """Overlap 2 |A and B| / (|A| + |B|) of multisets of case-folded words without ASCII punctuation, the stand-in for
    the benchmark's classifier; 1 for two texts without words."""
    bags = [
        Counter(word for part in text.casefold().split() if (word := part.strip(string.punctuation)))
        for text in (first, second)
    ]
    total = bags[0].total() + bags[1].total()
    return 2 * (bags[0] & bags[1]).total() / total if total else 1.0


def representatives(partition: Sequence[int]) -> list[int]:
    """Index of the first response of each class."""
    return [partition.index(label) for label in dict.fromkeys(partition)]


def distinct(partition: Sequence[int]) -> int:
    return len(set(partition))


def rating(reward: float, thresholds: Sequence[float] = RATING_THRESHOLDS) -> int:
    """Rating 1 to 10 of a raw reward: one more than the number of thresholds below it. Raises ValueError for NaN."""
    if math.isnan(reward):
        raise ValueError("a reward is not a number")
    return bisect.bisect_left(thresholds, reward) + 1


def generation_ratings(partition: Sequence[int], class_ratings: Sequence[int]) -> list[int]:
    """Rating of every response: that of its class for the first one of each class, 0 for the others."""
    ratings = [0] * len(partition)
    for index, value in zip(representatives(partition), class_ratings, strict=True):
        ratings[index] = value
    return ratings


def utility(ratings: Sequence[int], patience: float) -> float:
    """Mean of ``generation_ratings`` with weights patience^i, i = 0, 1, ...; NaN without any."""
    if not len(ratings):
        return math.nan
    return float(np.average(np.asarray(ratings, dtype=np.float64), weights=patience ** np.arange(len(ratings))))


def partition_responses(
    responses: Sequence[Sequence[str]], similarity: Callable[[list[Pair]], np.ndarray], threshold: float
) -> list[list[int]]:
    """Classes of the responses to every prompt, from 0 in the order of first appearance. The benchmark puts a response
    into the first class whose representative says the same, else into a new one; equivalently, in round k every prompt
    compares its first unassigned response with all later ones, above the threshold of ``similarity``, float64[n] of n
    pairs."""
    labels, label = [[-1] * len(texts) for texts in responses], 0
    while members := _next_comparisons(labels, label):
        pairs = [(responses[prompt][first], responses[prompt][other]) for prompt, first, other in members]
        equal = [short_responses_equal(*pair) for pair in pairs]
        unclear = [pair for pair, decided in zip(pairs, equal, strict=True) if decided is None]
        verdicts = iter((similarity(unclear) > threshold).tolist() if unclear else [])
        for (prompt, _, other), decided in zip(members, equal, strict=True):
            if next(verdicts) if decided is None else decided:
                labels[prompt][other] = label
        label += 1
    return labels


def _next_comparisons(labels: list[list[int]], label: int) -> list[tuple[int, int, int]]:
    """Open class ``label`` in every unfinished prompt; (prompt, representative, later unassigned response)."""
    members = []
    for prompt, row in enumerate(labels):
        unassigned = [index for index, assigned in enumerate(row) if assigned < 0]
        if unassigned:
            row[unassigned[0]] = label
            members.extend((prompt, unassigned[0], other) for other in unassigned[1:])
    return members
