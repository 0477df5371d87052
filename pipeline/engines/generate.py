"""Sampling with one prefill per prompt and a random stream per sample."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
from transformers.modeling_outputs import CausalLMOutputWithPast

from pipeline.core.random_streams import stream_seed
from pipeline.core.sampling import sample_tokens


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
def generate(
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
) -> list[Generation]:
    """Sample one answer per seed, independently.

    The prompt is run once; its cache is shared out to up to ``batch_size`` rows. Every
    row draws step k with the k-th number of its own stream, so the rows it is decoded
    with do not matter (up to rounding of batched matrix products). The model's own
    generation_config plays no part.

    Args:
        model: Causal language model, with or without adapter, in evaluation mode.
        tokenizer: For decoding.
        prompt_ids: The encoded request.
        seeds: One seed per sample.
        stop_ids: Tokens that end a generation.
        max_new_tokens: Longest generation in tokens.
        temperature: Softmax temperature.
        top_p: Nucleus mass, 1 for none.
        batch_size: Rows decoded together.
    """
    device = next(model.parameters()).device
    prompt = model(input_ids=torch.tensor([list(prompt_ids)], device=device), use_cache=True, logits_to_keep=1)
    results = []
    for start in range(0, len(seeds), batch_size):
        chunk = list(seeds[start : start + batch_size])
        tokens = _sample_rows(model, prompt, len(prompt_ids), chunk, stop_ids, max_new_tokens, temperature, top_p)
        for seed, row in zip(chunk, tokens, strict=True):
            stopped = row[-1] in stop_ids
            text = tokenizer.decode(row[:-1] if stopped else row, skip_special_tokens=True)
            results.append(Generation(seed, text, len(row), "stop" if stopped else "length"))
    return results


def _sample_rows(
    model: torch.nn.Module,
    prompt: CausalLMOutputWithPast,
    prompt_length: int,
    seeds: Sequence[int],
    stop_ids: set[int],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
) -> list[list[int]]:
    device = prompt.logits.device
    uniforms = torch.from_numpy(
        np.stack([np.random.Generator(np.random.Philox(seed)).random(max_new_tokens) for seed in seeds])
    ).to(device)
    stops = torch.tensor(sorted(stop_ids), device=device)
    # Decoding extends the cache in place; the prompt's own is kept for the next chunk of rows.
    cache = copy.deepcopy(prompt.past_key_values)
    cache.batch_repeat_interleave(len(seeds))
    logits = prompt.logits[:, -1].expand(len(seeds), -1)
    rows = torch.arange(len(seeds), device=device)
    done = torch.zeros(len(seeds), dtype=torch.bool, device=device)
    tokens: list[list[int]] = [[] for _ in seeds]
    for step in range(max_new_tokens):
        chosen = sample_tokens(logits, uniforms[rows, step], temperature, top_p)
        for row, token, finished in zip(rows.tolist(), chosen.tolist(), done.tolist(), strict=True):
            if not finished:
                tokens[row].append(token)
        done |= torch.isin(chosen, stops)
        if step + 1 == max_new_tokens or bool(done.all()):
            break
        if int(done.sum()) * 2 > len(done):
            # Finished rows are dropped once they are the majority; copying the cache costs as much as a step.
            kept = torch.nonzero(~done).squeeze(1)
            cache.batch_select_indices(kept)
            rows, chosen, done = rows[kept], chosen[kept], done[kept]
        position = torch.full((len(rows), 1), prompt_length + step, device=device)
        output = model(input_ids=chosen[:, None], past_key_values=cache, position_ids=position, use_cache=True)
        cache, logits = output.past_key_values, output.logits[:, -1]
    return tokens
