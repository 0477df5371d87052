"""Sampling with one prefill per prompt and a random stream per sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import stream_seed
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.sampling.samplers import Draw, Draws, SamplingLaw, first_stop, sample_rows


@dataclass(frozen=True)
class Generation:
    """One sampled answer, by the stream of its ``seed``; ``num_tokens`` counts the stop token, which ``text`` lacks."""

    seed: int
    text: str
    num_tokens: int
    finish_reason: str  # "stop" or "length"


def sample_seeds(seed: int, names: Sequence[str], num_samples: int) -> list[int]:
    """Seeds of samples 0..num_samples - 1 of the stream ``names`` (axis, model, condition, prompt_id)."""
    return [stream_seed(seed, "generate", *names, index) for index in range(num_samples)]


def generation_from_tokens(
    tokenizer: PreTrainedTokenizerBase,
    tokens: Sequence[int],
    seed: int,
    stop_ids: set[int],
    skip_special_tokens: bool,
    stops: Sequence[str] = (),
) -> Generation:
    """The generation with these tokens, the last perhaps a stop token; a stop string ends its text."""
    stopped = bool(tokens) and tokens[-1] in stop_ids
    text = tokenizer.decode(list(tokens[: len(tokens) - stopped]), skip_special_tokens=skip_special_tokens)
    if (end := first_stop(text, stops)) >= 0:
        text, stopped = text[:end], True
    return Generation(seed, text, len(tokens), "stop" if stopped else "length")


@torch.inference_mode()
def generate_prompts(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    *,
    stop_ids: set[int],
    max_new_tokens: int,
    temperature: float | Sequence[float],
    top_p: float | Sequence[float],
    batch_size: int,
    top_k: int | Sequence[int | None] | None = None,
    constraint: TrieConstraint | None = None,
    skip_special_tokens: bool = True,
    stops: Sequence[str] = (),
) -> Iterator[list[tuple[int, int, Generation]]]:
    """Sample one answer per seed of each prompt; yields index of the prompt, index of the seed, answer, as they finish.

    ``temperature``, ``top_p`` and ``top_k`` are of all prompts or one for each. Every sample draws step k with the k-th
    number of its own stream, so the rows it is decoded with do not matter, up to rounding.
    """
    settings = (
        value if isinstance(value, Sequence) else [value] * len(prompts) for value in (temperature, top_p, top_k)
    )
    laws = list(map(SamplingLaw, *settings))
    alike: dict[tuple[int, ...], list[int]] = {}
    for prompt, ids in enumerate(prompts):
        alike.setdefault(tuple(ids), []).append(prompt)
    places, left = [], {}
    for ids, own in alike.items():
        left[ids] = range(len(places), len(places) + sum(len(seeds[prompt]) for prompt in own))
        places += [(prompt, index) for prompt in own for index in range(len(seeds[prompt]))]
    samples = {
        number: Draw(seed=seeds[prompt][index], law=laws[prompt], limit=max_new_tokens, stops=stops)
        for number, (prompt, index) in enumerate(places)
    }
    draws = Draws(model, tokenizer, stop_ids, samples, constraint)
    # Samples are often equal, and decoding takes longer than looking them up.
    known: dict[tuple[int, ...], Generation] = {}
    for finished in sample_rows(draws, left, batch_size):
        answers = []
        for number in finished:
            sample = samples.pop(number)
            tokens = tuple(sample.tokens)
            if tokens not in known:
                known[tokens] = generation_from_tokens(tokenizer, tokens, 0, stop_ids, skip_special_tokens, stops)
            answers.append((*places[number], replace(known[tokens], seed=sample.seed)))
        if answers:
            yield answers


def generate(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: Sequence[int],
    seeds: Sequence[int],
    **settings: Any,
) -> list[Generation]:
    """All answers to one prompt, in the order of ``seeds``; settings as of ``generate_prompts``."""
    stream = generate_prompts(model, tokenizer, [prompt_ids], [seeds], **settings)
    answers = {index: answer for finished in stream for _, index, answer in finished}
    return [answers[index] for index in range(len(seeds))]
