"""Sampling with one prefill per prompt and a random stream per sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    laws: Sequence[SamplingLaw],
    *,
    stop_ids: set[int],
    max_new_tokens: int,
    batch_size: int,
    constraint: TrieConstraint | None = None,
    skip_special_tokens: bool = True,
    stops: Sequence[str] = (),
) -> Iterator[list[tuple[int, int, Generation]]]:
    """Sample one answer per seed of each prompt; yields index of the prompt, index of the seed, answer, as they finish.

    There is a law for each prompt. Every sample draws step k with the k-th number of its own stream, so the rows it is
    decoded with do not matter, up to rounding.
    """
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
