"""Anchors: replies to general instructions, on which an adapted model is held near its base checkpoint."""

import math
from collections.abc import Sequence

from pipeline.core.training.examples import Example, hard_example
from pipeline.errors import ConfigError

LARGEST_CHANGE = 0.2
"""Of the weight's logarithm in one step: forty steps span three orders of magnitude."""


def anchor_example(prompt_ids: Sequence[int], reply_ids: Sequence[int], max_length: int) -> Example:
    """A reply whose every token is a supervised position; all of a step's tokens weigh alike.

    Args:
        prompt_ids: Token ids of the encoded instruction.
        reply_ids: Token ids of the reply, the terminator last where it ended by itself.
        max_length: Longest instruction and reply in tokens; the rest of a longer reply is left out.

    Raises:
        ConfigError: The instruction leaves no room for a reply.
    """
    room = max_length - len(prompt_ids)
    if room < 1:
        raise ConfigError(
            f"train.max_length: {max_length} is too small for an instruction of {len(prompt_ids)} tokens and its reply"
        )
    return hard_example(prompt_ids, [reply_ids[:room]], "token")


def next_weight(weight: float, divergence: float, budget: float, least: float) -> float:
    """The weight of the next step, by which a divergence is driven to its budget: dual ascent on the logarithm.

    Args:
        weight: beta of this step, above 0.
        divergence: Nats per token that this step measured.
        budget: Nats per token to keep to.
        least: What the weight never falls below: before anything is learned the divergence says nothing.
    """
    excess = max(-1.0, min(1.0, divergence / budget - 1.0))
    return max(least, weight * math.exp(LARGEST_CHANGE * excess))
