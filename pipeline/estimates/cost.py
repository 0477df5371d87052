"""What work costs: tokens, GPU hours and memory. Estimates, good to a factor of two.

With N the parameters of a model, a token of training takes 4 N operations (the base is frozen: gradients run through
its activations alone), a token that is read 2 N, and a decoding step reads the weights once (2 N bytes), whatever the
number of sequences. The constants are of an A100 80 GB, fitted to the totals that the paper states for its own code
(arXiv:2605.11845, Appendix B.1).
"""

import math
import re
from dataclasses import astuple, dataclass

TRAINING_STEP_SECONDS, DECODING_STEP_SECONDS = 0.40, 0.025  # of a step, what does not depend on the model
TRAINING_OPERATIONS, READING_OPERATIONS = 0.065 * 312e12, 0.3 * 312e12
"""Operations a second, as shares of an A100's dense bf16 peak; training is FSDP on short sequences."""
DECODING_BYTES = 0.7 * 2.0e12  # bytes a second of weights that decoding reads
LOADING_SECONDS, LOADING_BYTES = 30.0, 1e9  # start of a stage that loads a model; bytes of weights a second
ACTIVATION_BYTES = 2.5
"""What a token keeps for the backward pass, by number of weights to the power 2/3 (width times depth); counted with
autograd for bfloat16 layers with LoRA on attention and dropout."""
LOGIT_BYTES = 16 * 2**25  # logits of one chunk of positions, their softmax and gradients, in float32
CLOCK = "GPU hours are those of A100s, from rates fitted to the totals that the paper states for its own code."


@dataclass(frozen=True)
class Cost:
    """What work costs. Sums are by field."""

    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0  # tokens that a model generates or is trained on
    gpu_hours: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def estimate_tokens(text: str) -> int:
    """Tokens of an English request: a digit or a mark is one, a word one for every eight letters begun."""
    return sum(math.ceil(len(piece) / 8) for piece in re.findall(r"\d|[^\W\d]+|[^\w\s]", text))


def work_hours(
    num_parameters: int,
    *,
    training_steps: float = 0.0,
    training_tokens: float = 0.0,
    reading_tokens: float = 0.0,
    decoding_steps: float = 0.0,
) -> float:
    """GPU hours of amounts of work; steps of training are of all GPUs together."""
    seconds = training_steps * TRAINING_STEP_SECONDS
    seconds += training_tokens * 4 * num_parameters / TRAINING_OPERATIONS
    seconds += reading_tokens * 2 * num_parameters / READING_OPERATIONS
    seconds += decoding_steps * (DECODING_STEP_SECONDS + 2 * num_parameters / DECODING_BYTES)
    return seconds / 3600


def training_steps_of(prompts: int, samples_per_prompt: int, epochs: int, global_batch_size: int) -> int:
    """Optimiser steps; the last of an epoch may be smaller (189 and 1,988 at the paper's settings)."""
    return epochs * math.ceil(prompts * samples_per_prompt / global_batch_size)


def training_memory_bytes(num_parameters: int, tokens_per_pass: float, rank: int, num_modules: int) -> float:
    """Memory of a GPU that trains an adapter alone: bfloat16 weights, adapter with gradient and moments, activations of
    the largest pass (padding included), logits."""
    # A float32 adapter grows with the power 2/3 of the model (width times depth), from 15.3 million weights of
    # Qwen3-8B's at rank 16 on four attention projections.
    adapter = 4 * 4 * 15.3e6 * (num_parameters / 8.19e9) ** (2 / 3) * rank / 16 * num_modules / 4
    activations = ACTIVATION_BYTES * num_parameters ** (2 / 3) * tokens_per_pass
    return 2 * num_parameters + adapter + activations + LOGIT_BYTES
