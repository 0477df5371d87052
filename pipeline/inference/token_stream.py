"""Samples of several requests, drawn in shared steps: pieces of text, and where stop strings end them."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, islice

import torch

from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.engines.sampling.generate import generation_from_tokens
from pipeline.engines.sampling.samplers import Draw, Draws, SamplingLaw, sample_rows

MOST_SAMPLES = 2**16  # of a request, and of all that have been begun; each takes about a kilobyte
PROMPTS_KEPT = 8  # prompts that need not be run again for a later request


@dataclass(frozen=True)
class Piece:
    """What has been drawn of sample ``index`` since its last piece."""

    index: int
    text: str
    num_tokens: int
    finish_reason: str | None  # "stop" or "length" in the last piece of a sample, else None


class Inbox:
    """What has been drawn for a client and not been taken; pieces of a sample are joined, however slow the client."""

    def __init__(self) -> None:
        self._pieces: dict[int, Piece] = {}
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def put(self, news: Sequence[Piece] | Exception) -> None:
        """Add pieces, or an error in place of all that is missing."""
        if isinstance(news, Exception):
            self._error, news = news, ()
        for piece in news:
            if held := self._pieces.get(piece.index):
                text, tokens = held.text + piece.text, held.num_tokens + piece.num_tokens
                piece = Piece(piece.index, text, tokens, piece.finish_reason)
            self._pieces[piece.index] = piece
        self._news.set()

    async def take(self) -> list[Piece]:
        """Wait for pieces. Raises the error that was put."""
        await self._news.wait()
        if self._error:
            raise self._error
        self._news.clear()
        taken, self._pieces = list(self._pieces.values()), {}
        return taken


@dataclass(frozen=True, eq=False)
class Job:
    """Samples to draw."""

    prompt: Sequence[int]
    seeds: Sequence[int]  # one per sample, which is what the Hugging Face engine draws with that seed
    max_new_tokens: int
    temperature: float  # 0 takes the most probable token at every step
    top_p: float
    stops: Sequence[str]  # strings that end a sample; neither they nor what follows is part of its text
    piecewise: bool  # whether pieces of unfinished samples are wanted
    inbox: Inbox = field(default_factory=Inbox)


@dataclass(eq=False, kw_only=True, slots=True)
class _Sample(Draw):
    """A sample of a job; ``told`` counts the characters and tokens that have been handed on."""

    job: Job
    index: int
    told: tuple[int, int] = (0, 0)


def _settled(text: str, stops: Sequence[str]) -> int:
    """How many characters of an unfinished text are certain to stay: not half a character, nor half a stop string."""
    whole = len(text.rstrip("\ufffd"))
    held = (size for stop in stops for size in range(1, len(stop)) if text[:whole].endswith(stop[:size]))
    return whole - max(held, default=0)


class SharedSteps:
    """Draws the samples of jobs that come and go, at most ``batch_size`` rows together. One thread may use it."""

    def __init__(self, loaded: ConditionedModel, batch_size: int):
        self._loaded, self._batch_size, self._numbers = loaded, batch_size, count()
        self._jobs: deque[Job] = deque()  # those not begun
        self._samples: dict[int, _Sample] = {}
        self.clear()

    @property
    def under_way(self) -> bool:
        return bool(self._jobs or self._samples)

    def add(self, job: Job) -> None:
        """Draw the samples of a job: from the next step on, where there is room for them."""
        self._jobs.append(job)

    def drop(self, job: Job) -> None:
        """Do without what is missing of a job: its samples end with their next step."""
        if job in self._jobs:
            self._jobs.remove(job)
        for sample in self._samples.values():
            if sample.job is job:
                sample.limit = 0

    def clear(self) -> set[Job]:
        """Drop what has been begun, and what is kept of prompts; returns whose it was."""
        jobs = {sample.job for sample in self._samples.values()}
        self._samples = {}
        self._left: dict[tuple[int, ...], Sequence[int]] = {}
        draws = Draws(self._loaded.model, self._loaded.tokenizer, self._loaded.stop_ids, self._samples)
        self._steps = sample_rows(draws, self._left, self._batch_size, PROMPTS_KEPT)
        return jobs

    def _begin(self, job: Job) -> None:
        law = SamplingLaw(1.0, 1.0, 1) if job.temperature == 0 else SamplingLaw(job.temperature, job.top_p)
        numbers = list(islice(self._numbers, len(job.seeds)))
        for index, (seed, number) in enumerate(zip(job.seeds, numbers, strict=True)):
            sample = _Sample(seed=seed, law=law, limit=job.max_new_tokens, stops=job.stops, job=job, index=index)
            self._samples[number] = sample
        self._left[tuple(job.prompt)] = [*self._left.get(tuple(job.prompt), ()), *numbers]

    @torch.inference_mode()
    def step(self) -> dict[Job, list[Piece]]:
        """Draw a token of the samples that have rows; returns what that has added to those of each job."""
        while self._jobs and len(self._samples) + len(self._jobs[0].seeds) <= MOST_SAMPLES:
            self._begin(self._jobs.popleft())
        ended = [self._samples.pop(number) for number in next(self._steps)]
        grown = [sample for sample in self._samples.values() if sample.job.piecewise]
        told: dict[Job, list[Piece]] = {}
        for sample, goes_on in [*((sample, False) for sample in ended), *((sample, True) for sample in grown)]:
            # A sample with the limit 0 has been dropped.
            if sample.limit and len(sample.tokens) > sample.told[1] and (piece := self._piece(sample, goes_on)):
                told.setdefault(sample.job, []).append(piece)
        return told

    def _piece(self, sample: _Sample, goes_on: bool) -> Piece | None:
        """What is certain of a sample's text and has not been told, if anything."""
        stop_ids, (characters, tokens) = self._loaded.stop_ids, sample.told
        whole = generation_from_tokens(self._loaded.tokenizer, sample.tokens, 0, stop_ids, True, sample.stops)
        text = whole.text[: _settled(whole.text, sample.stops)] if goes_on else whole.text
        if goes_on and len(text) <= characters:
            return None
        sample.told = len(text), len(sample.tokens)
        reason = None if goes_on else whole.finish_reason
        return Piece(sample.index, text[characters:], len(sample.tokens) - tokens, reason)
