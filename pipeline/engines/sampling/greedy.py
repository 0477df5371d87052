"""Greedy decoding of many prompts in batches, up to a stop token or a stop string."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.memory import MemoryLimit
from pipeline.engines.sampling.generate import generation_from_tokens
from pipeline.engines.sampling.row_decoder import sample_rows
from pipeline.engines.sampling.samplers import Draws, GenerationStatistics


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


class GreedyDraws(Draws):
    """The most probable token at every step; stop strings end an answer, too."""

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        num_samples: int,
        max_new_tokens: int,
        stop_ids: set[int],
        stops: Sequence[str],
    ) -> None:
        """Arguments as of ``greedy_answers``."""
        super().__init__(model, num_samples, max_new_tokens, stop_ids, GenerationStatistics())
        self._tokenizer, self._stops, self._last_tokens = tokenizer, stops, stop_ids
        # A token is at least one byte, so a stop string that has just ended lies within so many tokens.
        self._window = max((len(stop.encode()) for stop in stops), default=0) + 1
        self._stopped: set[int] = set()

    def choose(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> torch.Tensor:
        """See Draws."""
        return logits.argmax(dim=-1)[rows]

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See Draws."""
        drawn, goes_on = super().draw(logits, rows, samples, step)
        tails = [tokens[-self._window :] for tokens in self.drawn(samples)]
        found = [first_stop(self._tokenizer.decode(tail, skip_special_tokens=True), self._stops) >= 0 for tail in tails]
        self._stopped.update(sample for sample, ends in zip(samples.tolist(), found, strict=True) if ends)
        return drawn, goes_on & ~torch.tensor(found, device=drawn.device)

    def answers(self) -> list[GreedyAnswer]:
        """What was decoded, once all samples are finished."""
        answers = []
        for sample, tokens in enumerate(self.drawn(torch.arange(len(self.lengths), device=self.lengths.device))):
            whole = generation_from_tokens(self._tokenizer, tokens, 0, self._last_tokens, skip_special_tokens=True)
            end = first_stop(whole.text, self._stops)
            reason = "stop" if sample in self._stopped else whole.finish_reason
            answers.append(GreedyAnswer(whole.text if end < 0 else whole.text[:end], whole.num_tokens, reason))
        return answers


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
    """Decode the most probable token at every step, batch by batch.

    Args:
        model: Causal language model, with or without adapter, in evaluation mode. Its own
            generation_config plays no part.
        tokenizer: For decoding.
        prompts: Token ids, at least one each.
        stop_ids: Tokens that end an answer.
        stops: Strings that end an answer; neither they nor what follows is part of it.
        max_new_tokens: Longest answer in tokens.
        tokens_per_pass: Prompt tokens of one batch at most, padding included.

    Yields:
        (index of the prompt, its answer), a batch at a time; every index once.
    """

    @torch.inference_mode()
    def run(members: list[int]) -> list[GreedyAnswer]:
        draws = GreedyDraws(model, tokenizer, len(members), max_new_tokens, stop_ids, stops)
        for _ in sample_rows(draws, [prompts[index] for index in members], [1] * len(members), len(members)):
            pass
        return draws.answers()

    lengths = [len(prompt) for prompt in prompts]
    for members, answers in MemoryLimit().run(lengths, tokens_per_pass, run):
        yield list(zip(members, answers, strict=True))
