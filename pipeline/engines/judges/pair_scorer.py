"""What gives a pair of texts a number: judges of two answers, and reward models (request, response)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.core.language.novelty import word_dice
from pipeline.core.language.novelty_partition import Pair
from pipeline.engines.loading.memory import MemoryLimit

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase


def rows_of(encoded: Mapping[str, list[list[int]]]) -> list[dict[str, list[int]]]:
    """What a tokenizer makes of several texts, one mapping for each text."""
    return [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]


class EncodedTexts:
    """A model that is run on encoded texts, those of similar length together.

    Args:
        model: In evaluation mode.
        tokenizer: Has a padding token.
        max_tokens: Tokens kept of each text.
        tokens_per_pass: Tokens per forward pass, padding included.
    """

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, max_tokens: int, tokens_per_pass: int
    ):
        self.model, self.tokenizer = model, tokenizer
        self.max_tokens, self.tokens_per_pass = max_tokens, tokens_per_pass
        self._memory = MemoryLimit()

    def _inputs(self, rows: Sequence[Mapping[str, list[int]]]) -> "BatchEncoding":
        """Rows as right-padded int64[R, T] inputs with their attention mask."""
        return self.tokenizer.pad(rows, padding_side="right", return_tensors="pt").to(self.model.device)

    @torch.inference_mode()
    def _run(
        self, rows: Sequence[Mapping[str, list[int]]], compute: Callable[["BatchEncoding"], torch.Tensor]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield the indices of the rows of each pass, and float64 of what ``compute`` makes of its inputs."""

        def run(indices: list[int]) -> np.ndarray:
            return compute(self._inputs([rows[index] for index in indices])).double().cpu().numpy()

        yield from self._memory.run([len(row["input_ids"]) for row in rows], self.tokens_per_pass, run)


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
