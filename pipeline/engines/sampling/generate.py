"""Sampling with one prefill per prompt and a random stream per sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.random_streams import stream_seed
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.sampling.row_decoder import sample_rows
from pipeline.engines.sampling.samplers import GenerationStatistics, RandomDraws, SamplingLaw, sample_merged


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


def generation_from_tokens(
    tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int], seed: int, stop_ids: set[int], skip_special_tokens: bool
) -> Generation:
    """The generation with these tokens, the stop token, where there is one, being the last of them."""
    stopped = bool(tokens) and tokens[-1] in stop_ids
    kept = list(tokens[: len(tokens) - stopped])
    text = tokenizer.decode(kept, skip_special_tokens=skip_special_tokens)
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
    strategy: Literal["merged", "rows"] = "merged",
    top_k: int | Sequence[int | None] | None = None,
    constraint: TrieConstraint | None = None,
    skip_special_tokens: bool = True,
    statistics: GenerationStatistics | None = None,
) -> Iterator[list[tuple[int, int, Generation]]]:
    """Sample one answer per seed, independently, and hand them over as they are finished.

    Every distinct prompt is run once, whatever its samples are drawn under. Every sample draws step k with the k-th
    number of its own stream, so neither the strategy nor the rows it is decoded with matter (up to rounding of
    batched matrix products). The model's own generation_config plays no part.

    Args:
        model: Causal language model, with or without adapter, in evaluation mode.
        tokenizer: For decoding.
        prompts: The encoded requests; equal ones share their rows.
        seeds: For each prompt, one seed per sample.
        stop_ids: Tokens that end a generation.
        max_new_tokens: Longest generation in tokens.
        temperature: Softmax temperature; as the next and ``top_k``, of all prompts or one for each.
        top_p: Nucleus mass, 1 for none.
        batch_size: Most rows decoded together.
        strategy: "merged" runs every distinct prefix of a prompt's samples once for all that have it;
            "rows" decodes every sample in a row of its own, those of all prompts together.
        top_k: Most probable tokens to draw from, None for all.
        constraint: Restricts every step to what a trie holds.
        skip_special_tokens: Whether special tokens other than the stop token are left out of
            the text; a protocol with channels needs them.
        statistics: Counts what the model runs, where given.

    Yields:
        Index of the prompt, index of the seed and the answer, as samples end; every pair once.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for prompt, ids in enumerate(prompts):
        alike.setdefault(tuple(ids), []).append(prompt)
    places = [(prompt, index) for own in alike.values() for prompt in own for index in range(len(seeds[prompt]))]
    if not places:
        return
    flat = [seeds[prompt][index] for prompt, index in places]
    laws = list(map(SamplingLaw, *(_each(value, len(prompts)) for value in (temperature, top_p, top_k))))
    draws = RandomDraws(
        model,
        _uniforms(flat, max_new_tokens, next(model.parameters()).device),
        stop_ids,
        [laws[prompt] for prompt, _ in places],
        statistics or GenerationStatistics(),
        constraint,
    )
    counts = [sum(len(seeds[prompt]) for prompt in own) for own in alike.values()]
    # Samples are often equal, and decoding takes longer than looking them up.
    known: dict[tuple[int, ...], Generation] = {}
    sample = {"merged": sample_merged, "rows": sample_rows}[strategy]
    for finished in sample(draws, list(alike), counts, batch_size):
        answers = []
        for place, tokens in zip(finished.tolist(), draws.drawn(finished), strict=True):
            if tokens not in known:
                known[tokens] = generation_from_tokens(tokenizer, tokens, 0, stop_ids, skip_special_tokens)
            answers.append((*places[place], replace(known[tokens], seed=flat[place])))
        if answers:
            yield answers


def _each(value: Any, count: int) -> Sequence[Any]:
    """One value for each of ``count`` prompts, from one for all or from such a sequence."""
    return value if isinstance(value, Sequence) else [value] * count


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
    """All answers to one prompt, in the order of ``seeds``; ``generate_prompts`` has the arguments."""
    stream = generate_prompts(model, tokenizer, [prompt_ids], [seeds], **settings)
    answers = {index: answer for finished in stream for _, index, answer in finished}
    return [answers[index] for index in range(len(seeds))]
