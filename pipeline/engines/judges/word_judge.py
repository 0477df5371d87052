"""A causal language model as a judge that guesses a word: its law over some words' first tokens, and all others."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.engines.loading.chat import encode_answers
from pipeline.engines.loading.memory import length_buckets, right_padded
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import candidate_log_probabilities, most_tokens

if TYPE_CHECKING:
    from pipeline.engines.loading.conditioned_model import ConditionedModel


def with_rest(log_probabilities: np.ndarray) -> np.ndarray:
    """Log-probabilities of K outcomes and of all others together: float64[K] to float64[K + 1], nats."""
    # Rounding must leave the logarithm finite.
    return np.append(log_probabilities, np.log(max(1.0 - float(np.exp(log_probabilities).sum()), 1e-12)))


class WordJudge:
    """The law of a reply's first token, over the first tokens of given words, by a judge in evaluation mode.

    Words with the same first token are one outcome, and all other tokens together are another.
    """

    def __init__(self, opened: "ConditionedModel", tokens_per_pass: int):
        self._opened, self._logits_at = opened, position_logits(opened.model)
        self._tokens_per_pass = most_tokens(self._logits_at, tokens_per_pass)

    def first_tokens(self, words: Sequence[str]) -> tuple[int, ...]:
        """Ids of the tokens that replies with these words begin with, each once, in ascending order."""
        return tuple(sorted({ids[0] for ids in encode_answers(self._opened.tokenizer, words) if ids}))

    @torch.inference_mode()
    def laws(self, requests: Sequence[str], tokens: Sequence[int]) -> Iterator[list[tuple[int, np.ndarray]]]:
        """Log-probabilities of the first token of the reply to each user message, over the K outcomes ``tokens``.

        Yields (index of the request, float64[K + 1] nats, all other tokens last), a forward pass at a time.
        """
        rows = [self._opened.encode(request) for request in requests]
        for members in length_buckets(list(map(len, rows)), self._tokens_per_pass):
            # Padding is on the right, where attention does not look, and needs no mask.
            ids, own = right_padded([rows[index] for index in members], self._logits_at.device)
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
            states = self._logits_at.forward(inputs)[0]
            last = states[torch.arange(len(members), device=states.device), own.sum(dim=1) - 1]
            owners, wanted = np.repeat(np.arange(len(members)), len(tokens)), np.tile(tokens, len(members))
            values = candidate_log_probabilities(self._logits_at, last, owners, wanted.astype(np.int64))
            yield list(zip(members, map(with_rest, values.reshape(len(members), -1)), strict=True))
