"""Samples while they are drawn: pieces of text, and where stop strings end them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.engines.sampling.generate import generation_from_tokens, uniform_numbers
from pipeline.engines.sampling.greedy import first_stop
from pipeline.engines.sampling.samplers import RandomDraws, SamplingLaw, sample_rows


@dataclass(frozen=True)
class Job:
    """Samples to draw."""

    prompts: Sequence[Sequence[int]]
    seeds: Sequence[Sequence[int]]
    """For each prompt, one seed per sample; a sample is what the Hugging Face engine draws with that seed."""
    max_new_tokens: int
    temperature: float
    """0 takes the most probable token at every step."""
    top_p: float
    stops: Sequence[str]
    """Strings that end a sample; neither they nor what follows is part of its text."""
    piecewise: bool
    """Whether pieces of unfinished samples are wanted."""


@dataclass(frozen=True)
class Piece:
    """What has been drawn of a sample since its last piece."""

    index: int
    """The sample's place among those of all prompts, in their order."""
    text: str
    num_tokens: int
    finish_reason: str | None
    """"stop" or "length" in the last piece of a sample, else None."""


class _StoppingDraws(RandomDraws):
    """Random draws that end at stop strings."""

    def __init__(self, loaded: ConditionedModel, job: Job) -> None:
        seeds = [seed for own in job.seeds for seed in own]
        greedy = job.temperature == 0
        law = SamplingLaw(1.0 if greedy else job.temperature, job.top_p, 1 if greedy else None)
        uniforms = uniform_numbers(seeds, job.max_new_tokens, loaded.device)
        super().__init__(loaded.model, uniforms, loaded.stop_ids, [law] * len(seeds))
        self._stops, self._tokenizer = job.stops, loaded.tokenizer

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See Draws."""
        drawn, goes_on = super().draw(logits, rows, samples, step)
        if self._stops:
            texts = [self._tokenizer.decode(tokens, skip_special_tokens=True) for tokens in self.drawn(samples)]
            goes_on &= torch.tensor([first_stop(text, self._stops) < 0 for text in texts], device=goes_on.device)
        return drawn, goes_on


def _settled(text: str, stops: Sequence[str]) -> int:
    """How many characters of an unfinished text are certain to stay: not half a character, nor half a stop string."""
    whole = len(text.rstrip("\ufffd"))
    held = (size for stop in stops for size in range(1, len(stop)) if text[:whole].endswith(stop[:size]))
    return whole - max(held, default=0)


@torch.inference_mode()
def pieces(loaded: ConditionedModel, job: Job, batch_size: int) -> Iterator[list[Piece]]:
    """Draw the samples of a job, at most ``batch_size`` together; yields what each step has added to each sample."""
    draws, counts = _StoppingDraws(loaded, job), [len(own) for own in job.seeds]
    # Of each unfinished sample, how many characters and tokens have been handed on.
    told = dict.fromkeys(range(sum(counts)), (0, 0))
    for finished in sample_rows(draws, job.prompts, counts, batch_size):
        ended, lengths, step = set(finished.tolist()), draws.lengths.tolist(), []
        for index, (characters, tokens) in list(told.items()):
            if index not in ended and not (job.piecewise and lengths[index] > tokens):
                continue
            text, reason = _text(loaded, job, draws, index, index in ended)
            if len(text) > characters or reason:
                step.append(Piece(index, text[characters:], lengths[index] - tokens, reason))
                told[index] = (len(text), lengths[index])
            if reason:
                del told[index]
        yield step


def _text(loaded: ConditionedModel, job: Job, draws: RandomDraws, index: int, ended: bool) -> tuple[str, str | None]:
    """What is certain of a sample's text, and why it has ended."""
    (tokens,) = draws.drawn(torch.tensor([index], device=draws.lengths.device))
    whole = generation_from_tokens(loaded.tokenizer, tokens, 0, loaded.stop_ids, skip_special_tokens=True)
    if (end := first_stop(whole.text, job.stops)) >= 0:
        return whole.text[:end], "stop" if ended else None
    return (whole.text, whole.finish_reason) if ended else (whole.text[: _settled(whole.text, job.stops)], None)
