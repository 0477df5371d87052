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
    """float64[R]: ``relative_entropies`` of the laws of the tokens of R replies to a prompt, their mean by reply."""

    def entropies(states: Callable[[], torch.Tensor], *_) -> np.ndarray:
        parts = states().split(LAWS_PER_CALL)
        return torch.cat([relative_entropies(float32_logits(scorer.logits_at, part)) for part in parts]).cpu().numpy()

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
    """KL between a model (of ``logits_at``) with and without its adapter, summed over each reply's tokens, in nats.

    ``directions``: "forward", KL(base || model), or "reverse", KL(model || base), of each reply. Yields (index of the
    reply, its divergence), a forward pass at a time; every index once.
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
