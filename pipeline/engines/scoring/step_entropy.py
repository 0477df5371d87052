"""How unsure a model is along replies: the entropy of the law of every token, and its mean over a reply's tokens."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.engines.loading.memory import MemoryLimit, right_padded
from pipeline.engines.loading.model import PositionLogits
from pipeline.engines.scoring.token_scores import float32_logits, most_tokens

LAWS_PER_CALL = 64
"""Laws that are taken at a time, in float64: 0.1 GB at 151,936 tokens."""


def relative_entropies(logits: torch.Tensor) -> torch.Tensor:
    """H / ln V of P laws, float64[P], from logits float32[P, V], V at least 2; in float64, or ties would be broken."""
    laws = logits.double().softmax(dim=1)
    return torch.special.entr(laws).sum(dim=1) / math.log(logits.shape[1])


class StepEntropy:
    """Mean entropy over the tokens of replies.

    Args:
        logits_at: The model, in evaluation mode.
        tokens_per_pass: Tokens per forward pass at most, padding included; a longer reply goes alone.
    """

    def __init__(self, logits_at: PositionLogits, tokens_per_pass: int):
        self._logits_at, self._memory = logits_at, MemoryLimit()
        self._tokens_per_pass = most_tokens(logits_at, tokens_per_pass)

    @torch.inference_mode()
    def means(self, prompt: Sequence[int], replies: Sequence[Sequence[int]]) -> np.ndarray:
        """``relative_entropies`` of the laws of the tokens of R replies to one prompt, their mean over each reply.

        Args:
            prompt: Token ids of the encoded request.
            replies: Token ids, at least one each.

        Returns:
            float64[R].

        Raises:
            ModelError: The GPU's memory is too small for a single reply.
        """

        def run(members: list[int]) -> list[float]:
            # The last token of a reply has no law behind it that is asked for. Padding is on the right, where
            # attention does not look, and needs no mask.
            rows = [[*prompt, *replies[index]][:-1] for index in members]
            ids, own = right_padded(rows, self._logits_at.device)
            own[:, : len(prompt) - 1] = False
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
            states = self._logits_at.forward(inputs)[0][own]
            parts = [relative_entropies(float32_logits(self._logits_at, part)) for part in states.split(LAWS_PER_CALL)]
            sizes = [len(replies[index]) for index in members]
            return [float(values.mean()) for values in torch.cat(parts).cpu().split(sizes)]

        lengths = [len(prompt) + len(reply) - 1 for reply in replies]
        done: dict[int, float] = {}
        for members, found in self._memory.run(lengths, self._tokens_per_pass, run):
            done |= zip(members, found, strict=True)
        return np.array([done[index] for index in range(len(replies))])
