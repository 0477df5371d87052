"""Samples while they are drawn: pieces of text, log-probabilities, and where stop strings end them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    """For each request, one seed per sample; a sample is what the Hugging Face engine draws with that seed."""
    max_new_tokens: int
    """Longest sample in tokens, the stop token included."""
    temperature: float
    """0 takes the most probable token at every step."""
    top_p: float
    stops: Sequence[str]
    """Strings that end a sample; neither they nor what follows is part of its text."""
    top_logprobs: int | None
    """Most probable tokens that are told at every step; None for no log-probabilities at all."""
    piecewise: bool
    """Whether pieces of unfinished samples are wanted."""


@dataclass(frozen=True)
class TokenScore:
    """A drawn token, and natural log-probabilities of the model at temperature 1 over its whole vocabulary."""

    text: str
    logprob: float
    top: list[tuple[str, float]]
    """Of the most probable tokens, by their texts, in descending order."""


@dataclass(frozen=True)
class Piece:
    """What has been drawn of a sample since its last piece."""

    index: int
    """The sample's place among those of all requests, in their order."""
    text: str
    scores: list[TokenScore]
    """Of further tokens, the stop token included; empty unless asked for."""
    num_tokens: int
    finish_reason: str | None
    """"stop" or "length" in the last piece of a sample, else None."""


class _WatchedDraws(RandomDraws):
    """Random draws that keep log-probabilities and end at stop strings."""

    def __init__(self, loaded: ConditionedModel, job: Job) -> None:
        seeds = [seed for own in job.seeds for seed in own]
        greedy = job.temperature == 0
        law = SamplingLaw(1.0 if greedy else job.temperature, job.top_p, 1 if greedy else None)
        uniforms = uniform_numbers(seeds, job.max_new_tokens, loaded.device)
        super().__init__(loaded.model, uniforms, loaded.stop_ids, [law] * len(seeds))
        self._job, self._tokenizer = job, loaded.tokenizer
        self._text_of = lru_cache(100_000)(lambda token: loaded.tokenizer.decode([token]))
        self.scores: list[list[TokenScore]] = [[] for _ in seeds]

    def choose(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> torch.Tensor:
        """See Draws."""
        drawn, top = super().choose(logits, rows, samples, step), self._job.top_logprobs
        if top is not None:
            law = logits.double().log_softmax(dim=-1)
            best = law.topk(top)
            values, tokens = best.values.tolist(), best.indices.tolist()
            chosen = zip(samples.tolist(), rows.tolist(), drawn.tolist(), law[rows, drawn].tolist(), strict=True)
            for sample, row, token, logprob in chosen:
                ranked = [(self._text_of(other), value) for other, value in zip(tokens[row], values[row], strict=True)]
                self.scores[sample].append(TokenScore(self._text_of(token), logprob, ranked))
        return drawn

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See Draws."""
        drawn, goes_on = super().draw(logits, rows, samples, step)
        if self._job.stops:
            texts = [self._tokenizer.decode(tokens, skip_special_tokens=True) for tokens in self.drawn(samples)]
            found = [first_stop(text, self._job.stops) < 0 for text in texts]
            goes_on &= torch.tensor(found, device=goes_on.device)
        return drawn, goes_on


@dataclass
class _Told:
    """What has been handed on of a sample."""

    characters: int = 0
    tokens: int = 0
    finished: bool = False


def _settled(text: str, stops: Sequence[str]) -> int:
    """How many characters of an unfinished text are certain to stay: not half a character, nor half a stop string."""
    whole = len(text.rstrip("\ufffd"))
    held = (size for stop in stops for size in range(1, len(stop)) if text[:whole].endswith(stop[:size]))
    return whole - max(held, default=0)


@torch.inference_mode()
def pieces(loaded: ConditionedModel, job: Job, batch_size: int) -> Iterator[list[Piece]]:
    """Draw the samples of a job, at most ``batch_size`` together; yields what each step has added to each sample."""
    draws, counts = _WatchedDraws(loaded, job), [len(own) for own in job.seeds]
    told = [_Told() for _ in range(sum(counts))]
    for finished in sample_rows(draws, job.prompts, counts, batch_size):
        ended, lengths = set(finished.tolist()), draws.lengths.tolist()
        news = (
            index
            for index, own in enumerate(told)
            if not own.finished and (index in ended or (job.piecewise and lengths[index] > own.tokens))
        )
        found = [_piece(loaded, job, draws, index, index in ended, told[index]) for index in news]
        yield [piece for piece in found if piece.text or piece.finish_reason]


def _piece(loaded: ConditionedModel, job: Job, draws: _WatchedDraws, index: int, ended: bool, told: _Told) -> Piece:
    """What is new of a sample; where it is no text yet, nothing is taken as told."""
    (tokens,) = draws.drawn(torch.tensor([index], device=draws.lengths.device))
    whole = generation_from_tokens(loaded.tokenizer, tokens, 0, loaded.stop_ids, skip_special_tokens=True)
    end = first_stop(whole.text, job.stops)
    text = whole.text if end < 0 else whole.text[:end]
    reason = None
    if ended:
        reason = "stop" if end >= 0 else whole.finish_reason
    elif end < 0:
        text = text[: _settled(text, job.stops)]
    text, scores = text[told.characters :], draws.scores[index][told.tokens :]
    piece = Piece(index, text, scores, len(tokens) - told.tokens, reason)
    if text or ended:
        told.characters, told.tokens, told.finished = told.characters + len(text), len(tokens), ended
    return piece
