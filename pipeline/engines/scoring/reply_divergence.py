"""KL between a model with and without its adapter, at every token of replies."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from peft import PeftModel

from pipeline.engines.loading.memory import MemoryLimit, right_padded
from pipeline.engines.loading.model import PositionLogits
from pipeline.engines.scoring.token_scores import logits_in_parts

DIRECTIONS = ("forward", "reverse")


@torch.inference_mode()
def reply_divergences(
    model: PeftModel,
    logits_at: PositionLogits,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    directions: Sequence[str],
    tokens_per_pass: int,
) -> Iterator[list[tuple[int, float]]]:
    """Divergences summed over the tokens of each reply, over the full vocabulary, in nats.

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

    def run(members: list[int]) -> list[float]:
        rows = [[*prompts[index], *replies[index]][:-1] for index in members]
        ids, _ = right_padded(rows, logits_at.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        sizes = [len(replies[index]) for index in members]
        places = np.concatenate([len(prompts[index]) - 1 + np.arange(len(replies[index])) for index in members])
        where = torch.from_numpy(np.repeat(np.arange(len(members)), sizes)), torch.from_numpy(places)
        where = tuple(values.to(ids.device) for values in where)
        own = logits_at.forward(inputs)[0][where]
        with model.disable_adapter():
            base = logits_at.forward(inputs)[0][where]
        forward = torch.tensor(
            np.repeat([directions[index] == "forward" for index in members], sizes), device=ids.device
        )
        found = []
        for part, logits in logits_in_parts(logits_at, own):
            with model.disable_adapter():
                others = logits_at.head(base[part]).float().log_softmax(dim=1)
            mine = logits.log_softmax(dim=1)
            difference, chosen = others - mine, forward[part, None]
            mass = torch.where(chosen, others, mine).exp_()
            found.append((mass * torch.where(chosen, difference, -difference)).sum(dim=1))
        values = torch.cat(found).double().cpu().numpy()
        return [float(each.sum()) for each in np.split(values, np.cumsum(sizes)[:-1])]

    lengths = [len(prompt) + len(reply) - 1 for prompt, reply in zip(prompts, replies, strict=True)]
    for members, values in MemoryLimit().run(lengths, tokens_per_pass, run):
        yield list(zip(members, values, strict=True))
