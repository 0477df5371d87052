"""What a stage costs before it runs: tokens, GPU hours and disk. Estimates, good to a factor of two at best.

The clock is an A100 80 GB. Three shapes of work, with N the parameters of the model:

- training: every step has a cost of its own, and a token 4 N operations (forward 2 N, backward 2 N: the base
  is frozen, so gradients run through its activations alone);
- prefill (scoring, prompts): a token takes 2 N operations;
- decoding: a step reads the weights once (2 N bytes) whatever the number of sequences that it advances.

The constants are fitted to the totals that the paper states (arXiv:2605.11845, Appendix B.1: 4 A100, twelve
models, base, soft and hard): 2.6 and 26.7 GPU-hours of training, and 4.5, 3.1, 17.6, 4.8, 11.5 and 194 hours of
structured, open-ended, multiple-choice, TinyBenchmarks, PALOMA and NoveltyBench evaluation. Those are sums of
wall-clock times; the text does not say how many GPUs a run used, and one is assumed. They are times of the
paper's code: sampling that shares prefixes, packed completions or vLLM may take a fraction of it. Baselines,
exact laws and preflight are not among the totals; their rates are carried over from the nearest kind of work.

``Rates`` of a device, measured with this code, replace the three shapes of work. Loading stays an assumption.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from pipeline.estimates.rates import Rates

PEAK_OPERATIONS = 312e12
"""Dense bf16 operations per second of an A100."""
PEAK_BANDWIDTH = 2.0e12
"""Bytes per second of its memory."""

TRAINING_STEP_GPU_SECONDS = 0.40
"""GPU time of a step that does not depend on the model (launches, data, optimiser, four GPUs waiting)."""
TRAINING_UTILISATION = 0.065
"""Share of PEAK_OPERATIONS that training reaches (FSDP, short sequences)."""

PREFILL_UTILISATION = 0.4
"""Share of PEAK_OPERATIONS that prefill reaches where nothing is known."""
RETENTION_UTILISATION = 0.19
"""The same for TinyBenchmarks through an evaluation harness."""
PALOMA_UTILISATION = 0.47
"""The same for PALOMA, if its seven test slices have TOKENS_PER_SLICE each."""

BANDWIDTH_UTILISATION = 0.7
"""Share of PEAK_BANDWIDTH that decoding reaches."""
DECODING_STEP_SECONDS = 0.025
"""Time of a decoding step that does not depend on the model."""
LOADING_SECONDS = 30.0
"""Start of a stage that loads a model."""
LOADING_BYTES_PER_SECOND = 1e9
"""Reading of weights."""
PAPER_CLOCK = """\
GPU hours are those of A100s, from rates fitted to the totals that the paper states for its own code: \
2.6 and 26.7 GPU-hours of soft and hard training, and 4.5 h of structured, 3.1 h of open-ended, 17.6 h of \
multiple-choice, 4.8 h of TinyBenchmarks, 11.5 h of PALOMA and 194 h of NoveltyBench evaluation. Baselines, exact laws \
and preflight are not among those totals. Shared prefixes, packed completions or vLLM may take a fraction of it."""
MEASURED_CLOCK = """\
GPU hours are those of one {device}, from rates that this code had there with random weights ({measured}; {path}): \
{shapes}. Sizes between them are interpolated, larger ones in proportion. Sampling is the Hugging Face engine's with a \
row for every sample; merged prefixes or vLLM may take a fraction of it. Loading is assumed: {loading:.0f} s and \
{speed:.0f} GB/s."""

SEQUENCES_AT_ONCE: Mapping[str, float] = {
    "structured": 39.0,
    "open": 7.0,
    "mcq": 2.8,
    "novelty": 5.0,
    "anchors": 5.0,
    "laws": 39.0,
    "instructions": 5.0,
    "questions": 7.0,
    "perturbations": 7.0,
    "selfreflect": 5.0,
    "ssot": 39.0,
}
"""Sequences that a decoding step advances on average; for "ssot" assumed to be that of "structured", for replies to
instructions and summaries that of "novelty", for questions and their perturbations that of "open"."""

TYPICAL_COMPLETION_TOKENS: Mapping[str, float] = {
    "structured": 9,
    "open": 4,
    "mcq": 130,
    "novelty": 220,
    "anchors": 100,
    "laws": 9,
    "instructions": 100,
    "questions": 5,
    "perturbations": 5,
    "selfreflect": 60,
    "ssot": 600,
    "gsm8k": 130,
}
"""Tokens of a reply, terminator included, where its limit allows; assumed, as the paper does not say."""
TOKENS_PER_VERBALIZED_ANSWER = 16
"""Tokens of one answer in a list with probabilities."""
TEMPLATE_TOKENS = 14
"""Tokens that a chat template puts around a request."""
PROTOCOL_TOKENS = 180
"""Tokens of a baseline's instruction."""
SUMMARY_REQUEST_TOKENS = 45
"""Tokens around question and answers in a request for their summary, and for a hidden word."""
TASK_TOKENS: Mapping[str, int] = {
    "tinyMMLU": 800,
    "tinyHellaswag": 4600,
    "tinyTruthfulQA": 2600,
    "tinyWinogrande": 320,
    "tinyGSM8k": 900,
    "gsm8k": 900,
}
"""Tokens read per item, few-shot examples and all of its choices included; assumed. A chat template's dozen tokens are
within their error."""
TOKENS_PER_SLICE = 700_000
"""Tokens of a PALOMA test slice; assumed."""

ACTIVATION_BYTES = 2.5
"""What a token keeps for the backward pass, by number of weights to the power 2/3 (width times depth). Counted with
autograd for bfloat16 layers with LoRA on attention and dropout: 1.8 to 2.9 from Gemma-3-1B to 27B, 3.5 for
Qwen3-0.6B, about 1 for GPT-OSS, of whose weights most are experts that a token does not meet."""
LOGIT_BYTES = 16 * 2**25
"""Logits of one chunk of positions, their softmax and gradients, in float32."""

BYTES_PER_STRING_IN_TRIE = 75
"""Measured: tries of 1,988 prompts take 165 MB at 1,001 strings and 2.1 GB at 16,384."""
BYTES_PER_STRING_IN_SPACE = 20
"""Measured: string, index and probability in a compressed table."""
BYTES_PER_GENERATED_TOKEN = 3
"""Text of a generation in a compressed table."""
BYTES_PER_GENERATION = 12
"""Its seed, index and lengths."""


@dataclass(frozen=True)
class Cost:
    """What work costs. Sums are by field.

    Attributes:
        prompt_tokens: Tokens that a model reads.
        completion_tokens: Tokens that a model generates or is trained on.
        gpu_hours: On an A100, or on the device of the rates.
        disk_bytes: Left on disk, once.
    """

    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    gpu_hours: float = 0.0
    disk_bytes: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def times(self, factor: float) -> "Cost":
        """So many times all of it."""
        return Cost(*(factor * getattr(self, field.name) for field in fields(self)))


def estimate_tokens(text: str) -> int:
    """Tokens of an English request: a digit or a mark is one, a word one for every eight letters begun."""
    return sum(math.ceil(len(piece) / 8) for piece in re.findall(r"\d|[^\W\d]+|[^\w\s]", text))


def loading_hours(num_parameters: int) -> float:
    """Hours to start a stage and load a bf16 checkpoint."""
    return (LOADING_SECONDS + 2 * num_parameters / LOADING_BYTES_PER_SECOND) / 3600


def prefill_hours(
    tokens: float, num_parameters: int, utilisation: float = PREFILL_UTILISATION, rates: Rates | None = None
) -> float:
    """GPU hours to read ``tokens``; ``utilisation`` is of the paper's code, which ``rates`` replace."""
    if rates is not None:
        return tokens * rates.seconds("reading_token", num_parameters) / 3600
    return tokens * 2 * num_parameters / (PEAK_OPERATIONS * utilisation) / 3600


def decoding_hours(
    tokens: float, num_parameters: int, sequences_at_once: float, rates: Rates | None = None, rows: int = 1
) -> float:
    """GPU hours to generate ``tokens``.

    Args:
        tokens: Generated in total.
        num_parameters: Of the model.
        sequences_at_once: Sequences that a step of the paper's code advances.
        rates: Replace those of the paper's code.
        rows: Sequences that a step advances where ``rates`` are given.
    """
    if rates is not None:
        return rates.decoding_seconds(tokens, num_parameters, rows) / 3600
    step = DECODING_STEP_SECONDS + 2 * num_parameters / (PEAK_BANDWIDTH * BANDWIDTH_UTILISATION)
    return tokens / sequences_at_once * step / 3600


def training_hours(steps: int, tokens: float, num_parameters: int, rates: Rates | None = None) -> float:
    """GPU hours of optimiser steps on ``tokens`` in total, all GPUs together; loading is not in it."""
    if rates is not None:
        step, token = (rates.seconds(figure, num_parameters) for figure in ("training_step", "training_token"))
        return (steps * step + tokens * token) / 3600
    operations = 4 * num_parameters * tokens
    return (steps * TRAINING_STEP_GPU_SECONDS + operations / (PEAK_OPERATIONS * TRAINING_UTILISATION)) / 3600


def training_steps_of(prompts: int, samples_per_prompt: int, epochs: int, global_batch_size: int) -> int:
    """Optimiser steps; the last of an epoch may be smaller (189 and 1,988 at the paper's settings)."""
    return epochs * math.ceil(prompts * samples_per_prompt / global_batch_size)


def adapter_bytes(num_parameters: int, rank: int, num_modules: int) -> float:
    """Size of a float32 LoRA adapter.

    Its weights grow with width times depth, about the power 2/3 of the model; the factor is Qwen3-8B's: 15.3
    million at rank 16 on four attention projections. MLP projections are counted like those of attention.
    """
    return 4 * 15.3e6 * (num_parameters / 8.19e9) ** (2 / 3) * rank / 16 * num_modules / 4


def training_memory_bytes(num_parameters: int, tokens_per_pass: float, rank: int, num_modules: int) -> float:
    """Memory of a GPU that trains an adapter alone: weights, adapter with gradient and moments, activations and logits.

    Args:
        num_parameters: Of the base model, in bfloat16.
        tokens_per_pass: Tokens of the largest pass, padding included.
        rank: LoRA rank.
        num_modules: Modules per layer with LoRA weights.
    """
    adapter = 4 * adapter_bytes(num_parameters, rank, num_modules)
    activations = ACTIVATION_BYTES * num_parameters ** (2 / 3) * tokens_per_pass
    return 2 * num_parameters + adapter + activations + LOGIT_BYTES


def training_cost(
    *,
    num_parameters: int,
    prompt_tokens: float,
    prompts: int,
    epochs: int,
    samples_per_prompt: int,
    completions_per_example: int,
    global_batch_size: int,
    rank: int,
    num_modules: int,
    rates: Rates | None = None,
) -> Cost:
    """Cost of one adapter.

    Args:
        num_parameters: Of the base model.
        prompt_tokens: Mean tokens of a prompt, template included.
        prompts: Training prompts.
        epochs: Passes over them.
        samples_per_prompt: Strings per prompt and epoch.
        completions_per_example: Strings that share one copy of the prompt.
        global_batch_size: Examples per step.
        rank: LoRA rank.
        num_modules: Modules per layer with LoRA weights.
        rates: Replace those of the paper's code.
    """
    examples = epochs * prompts * samples_per_prompt / completions_per_example
    completion = examples * completions_per_example * TYPICAL_COMPLETION_TOKENS["structured"]
    steps = training_steps_of(prompts, samples_per_prompt // completions_per_example, epochs, global_batch_size)
    read = examples * prompt_tokens
    hours = training_hours(steps, read + completion, num_parameters, rates)
    return Cost(read, completion, hours, adapter_bytes(num_parameters, rank, num_modules))


def sampling_cost(
    *,
    num_parameters: int,
    prompt_tokens: float,
    prompts: int,
    samples: float,
    completion_tokens: float,
    sequences_at_once: float,
    rates: Rates | None = None,
    rows: int = 1,
) -> Cost:
    """Cost of generations: the prompt is read once for all samples of it, replies are decoded.

    Args:
        num_parameters: Of the model.
        prompt_tokens: Mean tokens of a prompt, template included.
        prompts: Prompts.
        samples: Generations per prompt, in the mean.
        completion_tokens: Mean tokens of a reply.
        sequences_at_once: Sequences that a decoding step of the paper's code advances.
        rates: Replace those of the paper's code.
        rows: Sequences that a decoding step advances where ``rates`` are given.
    """
    read, written = prompts * prompt_tokens, prompts * samples * completion_tokens
    hours = loading_hours(num_parameters) + prefill_hours(read, num_parameters, rates=rates)
    hours += decoding_hours(written, num_parameters, sequences_at_once, rates, rows)
    disk = written * BYTES_PER_GENERATED_TOKEN + prompts * samples * BYTES_PER_GENERATION
    return Cost(read, written, hours, disk)


def scoring_cost(
    *, num_parameters: int, tokens: float, utilisation: float = PREFILL_UTILISATION, rates: Rates | None = None
) -> Cost:
    """Cost of reading ``tokens`` for their log-probabilities."""
    hours = loading_hours(num_parameters) + prefill_hours(tokens, num_parameters, utilisation, rates)
    return Cost(tokens, 0.0, hours)


def clock(rates: Rates | None, path: Path | None) -> str:
    """What the GPU hours are hours of."""
    if rates is None:
        return PAPER_CLOCK
    return MEASURED_CLOCK.format(
        device=rates.device,
        measured=rates.measured,
        path=path,
        shapes=", ".join(rates.models),
        loading=LOADING_SECONDS,
        speed=LOADING_BYTES_PER_SECOND / 1e9,
    )
