"""Samples while they are drawn: pieces of text, and where stop strings end them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.engines.sampling.generate import generation_from_tokens, uniform_numbers
from pipeline.engines.sampling.samplers import Draws, SamplingLaw, sample_rows


@dataclass(frozen=True)
class Job:
    """Samples to draw."""

    prompt: Sequence[int]
    seeds: Sequence[int]  # one per sample, which is what the Hugging Face engine draws with that seed
    max_new_tokens: int
    temperature: float  # 0 takes the most probable token at every step
    top_p: float
    stops: Sequence[str]  # strings that end a sample; neither they nor what follows is part of its text
    piecewise: bool  # whether pieces of unfinished samples are wanted


@dataclass(frozen=True)
class Piece:
    """What has been drawn of sample ``index`` since its last piece."""

    index: int
    text: str
    num_tokens: int
    finish_reason: str | None  # "stop" or "length" in the last piece of a sample, else None


def _settled(text: str, stops: Sequence[str]) -> int:
    """How many characters of an unfinished text are certain to stay: not half a character, nor half a stop string."""
    whole = len(text.rstrip("\ufffd"))
    held = (size for stop in stops for size in range(1, len(stop)) if text[:whole].endswith(stop[:size]))
    return whole - max(held, default=0)


@torch.inference_mode()
def pieces(loaded: ConditionedModel, job: Job, batch_size: int) -> Iterator[list[Piece]]:
    """Draw the samples of a job, at most ``batch_size`` together; yields what each step has added to each sample."""
    law = SamplingLaw(1.0, 1.0, 1) if job.temperature == 0 else SamplingLaw(job.temperature, job.top_p, None)
    uniforms, laws = uniform_numbers(job.seeds, job.max_new_tokens, loaded.device), [law] * len(job.seeds)
    draws = Draws(loaded.model, loaded.tokenizer, uniforms, loaded.stop_ids, laws, stops=job.stops)
    # Of each unfinished sample, how many characters and tokens have been handed on.
    told = dict.fromkeys(range(len(job.seeds)), (0, 0))
    for finished in sample_rows(draws, [job.prompt], [len(job.seeds)], batch_size):
        ended, lengths, step = set(finished.tolist()), draws.lengths.tolist(), []
        for index, (characters, tokens) in list(told.items()):
            if index not in ended and not (job.piecewise and lengths[index] > tokens):
                continue
            (drawn,) = draws.drawn(torch.tensor([index], device=draws.lengths.device))
            whole = generation_from_tokens(loaded.tokenizer, drawn, 0, loaded.stop_ids, True, job.stops)
            text, reason = whole.text, whole.finish_reason
            if index not in ended:
                text, reason = text[: _settled(text, job.stops)], None
            if len(text) > characters or reason:
                step.append(Piece(index, text[characters:], lengths[index] - tokens, reason))
                told[index] = (len(text), lengths[index])
            if reason:
                del told[index]
        yield step
