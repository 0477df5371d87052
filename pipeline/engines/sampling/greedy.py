"""Greedy decoding of many prompts in batches, up to a stop token or a stop string."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.memory import MemoryLimit
from pipeline.engines.sampling.generate import generation_from_tokens
from pipeline.engines.sampling.samplers import Draws, sample_rows


@dataclass(frozen=True)
class GreedyAnswer:
    """One decoded answer."""

    text: str
    """Decoded tokens up to the first stop string, without special tokens."""
    num_tokens: int
    """Generated tokens, a stop token included."""
    finish_reason: str
    """"stop" (a stop token or string) or "length"."""


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first of the stop strings begins in ``text``; -1 if there is none."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=-1)


class _GreedyDraws(Draws):
    """The most probable token at every step; stop strings end an answer, too."""

    def __init__(self, model, tokenizer: PreTrainedTokenizerBase, stops: Sequence[str], *sizes) -> None:
        super().__init__(model, *sizes)
        self._tokenizer, self._stops, self.stopped = tokenizer, stops, set()
        # A token is at least one byte, so a stop string that has just ended lies within so many tokens.
        self._window = max((len(stop.encode()) for stop in stops), default=0) + 1

    def choose(self, logits, rows, samples, step) -> torch.Tensor:
        """See Draws."""
        return logits.argmax(dim=-1)[rows]

    def draw(self, logits, rows, samples, step) -> tuple[torch.Tensor, torch.Tensor]:
        """See Draws."""
        drawn, goes_on = super().draw(logits, rows, samples, step)
        tails = [tokens[-self._window :] for tokens in self.drawn(samples)]
        ends = [first_stop(self._tokenizer.decode(tail, skip_special_tokens=True), self._stops) >= 0 for tail in tails]
        self.stopped.update(sample for sample, end in zip(samples.tolist(), ends, strict=True) if end)
        return drawn, goes_on & ~torch.tensor(ends, device=drawn.device)


def greedy_answers(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    *,
    stop_ids: set[int],
    stops: Sequence[str],
    max_new_tokens: int,
    tokens_per_pass: int,
) -> Iterator[list[tuple[int, GreedyAnswer]]]:
    """Decode the most probable token at every step, ``tokens_per_pass`` prompt tokens together at most.

    Yields (index of the prompt, its answer), a batch at a time. Neither ``stops`` nor what follows is part of an
    answer.
    """

    @torch.inference_mode()
    def run(members: list[int]) -> list[GreedyAnswer]:
        draws = _GreedyDraws(model, tokenizer, stops, len(members), max_new_tokens, stop_ids)
        for _ in sample_rows(draws, [prompts[index] for index in members], [1] * len(members), len(members)):
            pass
        answers = []
        for sample, tokens in enumerate(draws.drawn(torch.arange(len(members), device=draws.lengths.device))):
            whole = generation_from_tokens(tokenizer, tokens, 0, stop_ids, skip_special_tokens=True)
            end = first_stop(whole.text, stops)
            reason = "stop" if sample in draws.stopped else whole.finish_reason
            answers.append(GreedyAnswer(whole.text if end < 0 else whole.text[:end], whole.num_tokens, reason))
        return answers

    for members, answers in MemoryLimit().run([len(prompt) for prompt in prompts], tokens_per_pass, run):
        yield list(zip(members, answers, strict=True))
