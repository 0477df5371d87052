"""Greedy decoding of many prompts in batches, up to a stop token or a stop string."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.engines.loading.memory import MemoryLimit


@dataclass(frozen=True)
class GreedyAnswer:
    """One decoded answer.

    Attributes:
        text: Decoded tokens up to the first stop string, without special tokens.
        num_tokens: Generated tokens, a stop token included.
        finish_reason: "stop" (a stop token or string) or "length".
    """

    text: str
    num_tokens: int
    finish_reason: str


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first of the stop strings begins in ``text``; -1 if there is none."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=-1)


class _Decoder:
    """Rows that are decoded together; they are dropped from the model once most of them have ended."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        stops: Sequence[str],
        max_new_tokens: int,
        rows: int,
    ):
        self.tokenizer, self.stop_ids, self.stops = tokenizer, stop_ids, stops
        self.max_new_tokens = max_new_tokens
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        self.reasons = [""] * rows
        # A token is at least one byte, so a stop string that has just ended lies within so many tokens.
        self._window = max((len(stop.encode()) for stop in stops), default=0) + 1

    def add(self, row: int, token: int) -> bool:
        """Record a token; whether the row goes on."""
        self.tokens[row].append(token)
        tail = self.tokenizer.decode(self.tokens[row][-self._window :], skip_special_tokens=True)
        if token in self.stop_ids or first_stop(tail, self.stops) >= 0:
            self.reasons[row] = "stop"
        elif len(self.tokens[row]) >= self.max_new_tokens:
            self.reasons[row] = "length"
        return not self.reasons[row]

    def answers(self) -> list[GreedyAnswer]:
        found = []
        for tokens, reason in zip(self.tokens, self.reasons, strict=True):
            kept = tokens[:-1] if tokens[-1] in self.stop_ids else tokens
            text = self.tokenizer.decode(kept, skip_special_tokens=True)
            end = first_stop(text, self.stops)
            found.append(GreedyAnswer(text if end < 0 else text[:end], len(tokens), reason))
        return found


@torch.inference_mode()
def _decode(model: torch.nn.Module, prompts: Sequence[Sequence[int]], decoder: _Decoder) -> list[GreedyAnswer]:
    device = model.get_input_embeddings().weight.device
    width = max(len(prompt) for prompt in prompts)
    # Padded on the left: every row's own slots are then contiguous, which sliding windows count on.
    ids = torch.tensor([[*[0] * (width - len(prompt)), *prompt] for prompt in prompts], device=device)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    mask = (torch.arange(width, device=device) >= width - lengths[:, None]).long()
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        use_cache=True,
        logits_to_keep=1,
    )
    cache, active = output.past_key_values, list(range(len(prompts)))
    # Row of the cache -> answer that it decodes.
    held = list(active)
    while True:
        drawn = output.logits[:, -1].argmax(dim=-1)
        chosen = drawn.tolist()
        active = [row for row in active if decoder.add(held[row], chosen[row])]
        if not active:
            return decoder.answers()
        if 2 * len(active) <= len(held):
            kept = torch.tensor(active, device=device)
            cache.reorder_cache(kept)
            drawn, mask, lengths = drawn[kept], mask[kept], lengths[kept]
            held, active = [held[row] for row in active], list(range(len(active)))
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        output = model(
            input_ids=drawn[:, None],
            attention_mask=mask,
            position_ids=lengths[:, None],
            past_key_values=cache,
            use_cache=True,
        )
        lengths = lengths + 1


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

    def run(members: list[int]) -> list[GreedyAnswer]:
        decoder = _Decoder(tokenizer, stop_ids, stops, max_new_tokens, len(members))
        return _decode(model, [prompts[index] for index in members], decoder)

    lengths = [len(prompt) for prompt in prompts]
    for members, answers in MemoryLimit().run(lengths, tokens_per_pass, run):
        yield list(zip(members, answers, strict=True))
