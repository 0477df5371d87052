"""What gives a pair of texts a number: pair classifiers (two responses) and reward models (request, response)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.core.language.novelty import word_dice
from pipeline.core.language.novelty_partition import Pair


class PairScorer(ABC):
    """Scores pairs of texts in batches of its own choice."""

    @abstractmethod
    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield indices and float64 scores of the pairs, each index once, as soon as a batch is done."""

    def scores(self, pairs: Sequence[Pair]) -> np.ndarray:
        """float64[n] scores of n pairs."""
        scores = np.full(len(pairs), np.nan)
        for indices, values in self.batches(pairs):
            scores[indices] = values
        return scores


class LexicalClassifier(PairScorer):
    """Word overlap of two responses (``word_dice``), for machines without the classifier's weights."""

    IDENTITY = {"kind": "lexical", "similarity": "word_dice"}  # noqa: RUF012

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """All pairs at once; they need no model."""
        if pairs:
            yield list(range(len(pairs))), np.array([word_dice(*pair) for pair in pairs])
