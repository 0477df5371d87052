"""Figures along replies: the entropy of the law of every token, and its divergence from the base checkpoint's."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from peft import PeftModel

from pipeline.engines.loading.model import PositionLogits
from pipeline.engines.scoring.token_scores import RowScorer, float32_logits, logits_in_parts

DIRECTIONS = ("forward", "reverse")
LAWS_PER_CALL = 64
"""Laws whose entropy is taken at a time, in float64: 0.1 GB at 151,936 tokens."""


def relative_entropies(logits: torch.Tensor) -> torch.Tensor:
    """H / ln V of P laws, float64[P], from logits float32[P, V], V at least 2; in float64, or ties would be broken."""
    laws = logits.double().softmax(dim=1)
    return torch.special.entr(laws).sum(dim=1) / math.log(logits.shape[1])


def mean_entropies(scorer: RowScorer, prompt: Sequence[int], replies: Sequence[Sequence[int]]) -> np.ndarray:
    """``relative_entropies`` of the laws of the tokens of R replies to one prompt, their mean over each reply.

    Args:
        scorer: Of the model.
        prompt: Token ids of the encoded request.
        replies: Token ids, at least one each.

    Returns:
        float64[R].

    Raises:
        ModelError: The GPU's memory is too small for a single reply.
    """

    def entropies(states: Callable[[], torch.Tensor], *_) -> np.ndarray:
        parts = states().split(LAWS_PER_CALL)
        found = [relative_entropies(float32_logits(scorer.logits_at, part)) for part in parts]
        return torch.cat(found).cpu().numpy()

    rows = [[*prompt, *reply] for reply in replies]
    done = dict(item for batch in scorer.score(rows, [len(prompt)] * len(rows), entropies) for item in batch)
    return np.array([done[index].mean() for index in range(len(replies))])


def reply_divergences(
    model: PeftModel,
    logits_at: PositionLogits,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    directions: Sequence[str],
    tokens_per_pass: int,
) -> Iterator[list[tuple[int, float]]]:
    """KL between a model with and without its adapter, summed over the tokens of each reply, in nats.

    Args:
        model: With its adapter, in evaluation mode.
        logits_at: The same model.
        prompts: Token ids of the encoded instruction of each reply.
        replies: Token ids of the replies, at least one each; the law of every one of them is compared.
        directions: "forward", KL(base || model), or "reverse", KL(model || base), of each reply.
        tokens_per_pass: Tokens per forward pass at most, padding included; a longer reply goes alone.

    Yields:
        (index of the reply, its divergence), a forward pass at a time; every index once.

    Raises:
        ModelError: The GPU's memory is too small for a single reply.
    """
    forward = np.array(directions) == "forward"

    def divergences(states: Callable[[], torch.Tensor], _: torch.Tensor, owners: np.ndarray) -> np.ndarray:
        own = states()
        with model.disable_adapter():
            base = states()
        is_forward, found = torch.from_numpy(forward[owners]).to(own.device), []
        for part, logits in logits_in_parts(logits_at, own):
            with model.disable_adapter():
                others = logits_at.head(base[part]).float().log_softmax(dim=1)
            mine, chosen = logits.log_softmax(dim=1), is_forward[part, None]
            mass, difference = torch.where(chosen, others, mine).exp_(), others - mine
            found.append((mass * torch.where(chosen, difference, -difference)).sum(dim=1))
        return torch.cat(found).double().cpu().numpy()

    rows = [[*prompt, *reply] for prompt, reply in zip(prompts, replies, strict=True)]
    for batch in RowScorer(logits_at, tokens_per_pass).score(rows, list(map(len, prompts)), divergences):
        yield [(index, float(values.sum())) for index, values in batch]
