"""Greedy partition of the responses to many prompts at once.

The benchmark compares a response with the representatives of the classes, in their order, and
puts it into the first class that says the same, else into a new one. Equivalently, and in few
large batches: in round k every prompt makes its first unassigned response the representative of
class k and compares all later unassigned ones with it. Both ask for exactly the same pairs; the
rounds of all prompts run together, so there are at most as many batches as responses per prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.language.novelty import short_responses_equal

Pair = tuple[str, str]


@dataclass(frozen=True)
class PartitionCounts:
    """Comparisons behind a partition; none of them depends on a cache.

    Attributes:
        pairs: All unordered pairs of responses to the same prompt.
        compared: Pairs that the greedy rule asks for; ``lexical`` those that the rule for short responses decides.
        classified: Compared pairs left to the classifier.
        classified_equal_texts: Pairs among these whose two texts are the same.
        classified_unique: Different pairs of texts among them: classifier calls with an empty cache.
        rounds: Batches of comparisons.
    """

    pairs: int
    compared: int
    lexical: int
    classified: int
    classified_equal_texts: int
    classified_unique: int
    rounds: int


def partition_responses(
    responses: Sequence[Sequence[str]],
    similarity: Callable[[list[Pair]], np.ndarray],
    threshold: float,
) -> tuple[list[list[int]], PartitionCounts]:
    """Classes of the responses to every prompt, from 0 in the order of first appearance, and the comparisons made.

    ``similarity`` gives float64[n] of n pairs (representative, later response); two are of one class where it is above
    the threshold.
    """
    labels = [[-1] * len(texts) for texts in responses]
    asked: list[Pair] = []
    compared = rounds = 0
    while members := _next_comparisons(labels, rounds):
        pairs = [(responses[prompt][first], responses[prompt][other]) for prompt, first, other in members]
        equal = [short_responses_equal(*pair) for pair in pairs]
        unclear = [pair for pair, decided in zip(pairs, equal, strict=True) if decided is None]
        verdicts = iter((similarity(unclear) > threshold).tolist() if unclear else [])
        for (prompt, _, other), decided in zip(members, equal, strict=True):
            if next(verdicts) if decided is None else decided:
                labels[prompt][other] = rounds
        asked += unclear
        compared += len(pairs)
        rounds += 1
    counts = PartitionCounts(
        pairs=sum(len(texts) * (len(texts) - 1) // 2 for texts in responses),
        compared=compared,
        lexical=compared - len(asked),
        classified=len(asked),
        classified_equal_texts=sum(first == second for first, second in asked),
        classified_unique=len(set(asked)),
        rounds=rounds,
    )
    return labels, counts


def _next_comparisons(labels: list[list[int]], label: int) -> list[tuple[int, int, int]]:
    """Open class ``label`` in every unfinished prompt; (prompt, representative, later unassigned response)."""
    members = []
    for prompt, row in enumerate(labels):
        unassigned = [index for index, found in enumerate(row) if found < 0]
        if unassigned:
            row[unassigned[0]] = label
            members.extend((prompt, unassigned[0], other) for other in unassigned[1:])
    return members
