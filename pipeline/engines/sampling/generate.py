"""Sampling with one prefill per prompt and a random stream per sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import stream_seed
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.sampling.prompt_rows import sample_prompts
from pipeline.engines.sampling.samplers import Draws, GenerationStatistics, Sampler, sample_merged, sample_rows


@dataclass(frozen=True)
class Generation:
    """One sampled answer.

    Attributes:
        seed: Seed of the sample's own stream of uniform numbers.
        text: Decoded tokens without the stop token and without other special tokens.
        num_tokens: Generated tokens, the stop token included.
        finish_reason: "stop" or "length".
    """

    seed: int
    text: str
    num_tokens: int
    finish_reason: str


def sample_seeds(seed: int, names: Sequence[str], num_samples: int) -> list[int]:
    """Seeds of samples 0..num_samples - 1 of the stream ``names`` (axis, model, condition, prompt_id)."""
    return [stream_seed(seed, "generate", *names, index) for index in range(num_samples)]


@torch.inference_mode()
def generate_stream(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    seeds: Sequence[int],
    *,
    stop_ids: set[int],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    batch_size: int,
    strategy: Literal["merged", "rows"] = "merged",
    constraint: TrieConstraint | None = None,
    skip_special_tokens: bool = True,
    statistics: GenerationStatistics | None = None,
) -> Iterator[list[tuple[int, Generation]]]:
    """Sample one answer per seed, independently, and hand them over as they are finished.

    The prompt is run once. Every sample draws step k with the k-th number of its own stream,
    so neither the strategy nor the rows it is decoded with matter (up to rounding of
    batched matrix products). The model's own generation_config plays no part.

    Args:
        model: Causal language model, with or without adapter, in evaluation mode.
        tokenizer: For decoding.
        prompt_ids: The encoded request.
        seeds: One seed per sample.
        stop_ids: Tokens that end a generation.
        max_new_tokens: Longest generation in tokens.
        temperature: Softmax temperature.
        top_p: Nucleus mass, 1 for none.
        batch_size: Most rows decoded together.
        strategy: "merged" runs every distinct prefix once for all samples that have it;
            "rows" decodes every sample in a row of its own.
        constraint: Restricts every step to what a trie holds.
        skip_special_tokens: Whether special tokens other than the stop token are left out of
            the text; a protocol with channels needs them.
        statistics: Counts what the model runs, where given.

    Yields:
        Index of the seed and its answer, in the order in which samples end; every index once.
    """
    if not seeds:
        return
    sampler = Sampler(
        model,
        prompt_ids,
        _uniforms(seeds, max_new_tokens, next(model.parameters()).device),
        stop_ids,
        temperature,
        top_p,
        statistics or GenerationStatistics(),
        constraint,
    )
    texts: dict[tuple[int, ...], str] = {}
    for finished in {"merged": sample_merged, "rows": sample_rows}[strategy](sampler, batch_size):
        if len(finished):
            yield _answers(tokenizer, sampler, finished, seeds, stop_ids, skip_special_tokens, texts)


def _answers(
    tokenizer: PreTrainedTokenizerBase,
    draws: Draws,
    finished: torch.Tensor,
    seeds: Sequence[int],
    stop_ids: set[int],
    skip_special_tokens: bool,
    texts: dict[tuple[int, ...], str],
) -> list[tuple[int, Generation]]:
    """Decode finished samples, int64[n]; ``texts`` remembers what was decoded, as samples are often equal."""
    rows, lengths = draws.tokens[finished].tolist(), draws.lengths[finished].tolist()
    answers = []
    for index, row, length in zip(finished.tolist(), rows, lengths, strict=True):
        stopped = row[length - 1] in stop_ids
        kept = tuple(row[: length - stopped])
        if kept not in texts:
            texts[kept] = tokenizer.decode(list(kept), skip_special_tokens=skip_special_tokens)
        answers.append((index, Generation(seeds[index], texts[kept], length, "stop" if stopped else "length")))
    return answers


@torch.inference_mode()
def generate_prompts(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    *,
    stop_ids: set[int],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    batch_size: int,
    skip_special_tokens: bool = True,
    statistics: GenerationStatistics | None = None,
) -> Iterator[list[tuple[int, int, Generation]]]:
    """``generate_stream`` with the strategy "rows" for many prompts, whose samples are decoded together.

    Args:
        model: Causal language model, with or without adapter, in evaluation mode.
        tokenizer: For decoding.
        prompts: The encoded requests.
        seeds: For each prompt, one seed per sample.
        stop_ids: As in ``generate_stream``, like all that follow.
        max_new_tokens: Longest generation in tokens.
        temperature: Softmax temperature.
        top_p: Nucleus mass.
        batch_size: Most rows decoded together.
        skip_special_tokens: Whether they are left out of the text.
        statistics: Counts what the model runs, where given.

    Yields:
        Index of the prompt, index of the seed and the answer; every pair once.
    """
    places = [(prompt, index) for prompt, own in enumerate(seeds) for index in range(len(own))]
    if not places:
        return
    flat = [seed for own in seeds for seed in own]
    draws = Draws(
        model,
        _uniforms(flat, max_new_tokens, next(model.parameters()).device),
        stop_ids,
        temperature,
        top_p,
        statistics or GenerationStatistics(),
    )
    texts: dict[tuple[int, ...], str] = {}
    for finished in sample_prompts(draws, prompts, [prompt for prompt, _ in places], batch_size):
        if len(finished):
            answers = _answers(tokenizer, draws, finished, flat, stop_ids, skip_special_tokens, texts)
            yield [(*places[place], answer) for place, answer in answers]


def _uniforms(seeds: Sequence[int], max_new_tokens: int, device: torch.device) -> torch.Tensor:
    """float64[len(seeds), max_new_tokens] uniform numbers, each row from its own stream."""
    rows = [np.random.Generator(np.random.Philox(seed)).random(max_new_tokens) for seed in seeds]
    return torch.from_numpy(np.stack(rows)).to(device)


def generate(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    seeds: Sequence[int],
    **settings: Any,
) -> list[Generation]:
    """All answers of ``generate_stream``, which has the arguments, in the order of ``seeds``."""
    stream = generate_stream(model, tokenizer, prompt_ids, seeds, **settings)
    answers = dict(item for finished in stream for item in finished)
    return [answers[index] for index in range(len(seeds))]
