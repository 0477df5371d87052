"""How the tokens of samples are drawn, and decoding of all samples of many prompts in shared rows.

Sample n draws its step k with its own uniform number k from the law after its own prefix, so it gets the same tokens
whichever rows the model runs together, up to rounding of batched matrix products.

A row of the model is a prompt and tokens that one or more of its samples begin with, so every distinct prefix is run
once. All rows end at the same slot; slots in front of a shorter text are masked out and have no weight:

    row 0      - P P P P s s s s      of two samples
    row 1      - - - P P P P s s      of one, whose prompt joined two steps ago
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from transformers import Cache, PreTrainedTokenizerBase

from pipeline.core.sampling import sample_tokens
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.sampling.slots import SlotLayer, place_rows, slot_layers


class SamplingLaw(NamedTuple):
    """How a token is drawn from the model's law; see ``pipeline.core.sampling.sample_tokens``."""

    temperature: float
    top_p: float
    top_k: int | None


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first of the stop strings begins in ``text``; -1 if there is none."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=-1)


class Draws:
    """Samples of one or several prompts, by uniform numbers float64[N, max_new_tokens], under laws of their own.

    ``constraint`` restricts them to a trie; a stop string of ``stops`` ends them, as a stop token does.
    ``tokens`` is int64[N, max_new_tokens], 0 behind a sample's end; ``lengths`` is int64[N], the stop token included.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        uniforms: torch.Tensor,
        stop_ids: set[int],
        laws: Sequence[SamplingLaw],
        constraint: TrieConstraint | None = None,
        stops: Sequence[str] = (),
    ) -> None:
        device = uniforms.device
        self.model, self._tokenizer, self._uniforms, self._stops = model, tokenizer, uniforms, stops
        self._stop_ids = torch.tensor(sorted(stop_ids), dtype=torch.int64, device=device)
        # A token is at least one byte, so a stop string that has just ended lies within so many tokens.
        self._window = max((len(stop.encode()) for stop in stops), default=0) + 1
        self.tokens = torch.zeros(uniforms.shape, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(len(uniforms), dtype=torch.int64, device=device)
        self._laws = list(dict.fromkeys(laws))
        places = {law: place for place, law in enumerate(self._laws)}
        self._law_of = torch.tensor([places[law] for law in laws], device=device)
        # The trie prefix that each sample has reached.
        self._constraint, self._prefixes = constraint, torch.zeros_like(self.lengths)

    def start(self, prompt_ids: Sequence[int], samples: torch.Tensor) -> tuple[Cache, torch.Tensor, torch.Tensor]:
        """Run a prompt, and draw first tokens of its ``samples``, int64[n]: its cache, and what ``draw`` returns."""
        ids = torch.tensor([list(prompt_ids)], device=samples.device)
        output = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        return output.past_key_values, *self.draw(output.logits[:, -1], torch.zeros_like(samples), samples, 0)

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw and record token ``step`` of ``samples``: tokens int64[n], and bool[n], whether they go on."""
        drawn = self._choose(logits, rows, samples, step)
        self.tokens[samples, step] = drawn
        self.lengths[samples] = step + 1
        goes_on = ~torch.isin(drawn, self._stop_ids)
        if self._stops:
            tails = [tokens[-self._window :] for tokens in self.drawn(samples)]
            texts = [self._tokenizer.decode(tail, skip_special_tokens=True) for tail in tails]
            goes_on &= torch.tensor([first_stop(text, self._stops) < 0 for text in texts], device=drawn.device)
        return drawn, goes_on & (torch.as_tensor(step, device=drawn.device) + 1 < self.tokens.shape[1])

    def drawn(self, samples: torch.Tensor) -> list[tuple[int, ...]]:
        """Tokens of ``samples``, int64[n], the stop token included."""
        rows, lengths = self.tokens[samples].tolist(), self.lengths[samples].tolist()
        return [tuple(row[:length]) for row, length in zip(rows, lengths, strict=True)]

    def _choose(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> torch.Tensor:
        if self._constraint is not None:
            used, rows = rows.unique(return_inverse=True)
            prefixes = torch.zeros_like(used)
            # Samples that share a row have the same tokens so far, so any of them may say which prefix that is.
            prefixes[rows] = self._prefixes[samples]
            logits = self._constraint.restrict(logits[used], prefixes)
        uniforms = self._uniforms[samples, step]
        if len(self._laws) == 1:
            drawn = _sample(logits, uniforms, rows, self._laws[0])
        else:
            drawn, law_of = torch.empty_like(samples), self._law_of[samples]
            for place in law_of.unique().tolist():
                own = law_of == place
                used, index = rows[own].unique(return_inverse=True)
                drawn[own] = _sample(logits[used], uniforms[own], index, self._laws[place])
        if self._constraint is not None:
            self._prefixes[samples] = self._constraint.advance(self._prefixes[samples], drawn)
        return drawn


def _sample(logits: torch.Tensor, uniforms: torch.Tensor, rows: torch.Tensor, law: SamplingLaw) -> torch.Tensor:
    if law.top_k == 1:
        return logits.argmax(dim=-1)[rows]
    return sample_tokens(logits, uniforms, law.temperature, law.top_p, rows, law.top_k)


@dataclass
class _Rows:
    """R distinct prefixes that are run together, and the n samples that have them.

    ``layers`` have keys and values of the ``parents`` int64[R], ascending, the rows that hold each prefix less its
    ``last`` token int64[R], which is ``lengths`` int64[R] tokens long; rows that were split share it. ``rows`` int64[n]
    is the prefix of each of the ``samples`` int64[n].
    """

    layers: list[SlotLayer]
    parents: torch.Tensor
    lengths: torch.Tensor
    last: torch.Tensor
    samples: torch.Tensor
    rows: torch.Tensor

    def split(self, first: int) -> tuple["_Rows", "_Rows"]:
        """The first rows, with these layers, and the others, with a copy of theirs."""
        held, parents = self.parents[first:].unique(return_inverse=True)
        width, ahead = int(self.lengths[first:].max()), self.rows < first
        copies = [layer.copied(held, width) for layer in self.layers]
        here = self.parents[:first], self.lengths[:first], self.last[:first], self.samples[ahead], self.rows[ahead]
        rest = self.lengths[first:], self.last[first:], self.samples[~ahead], self.rows[~ahead] - first
        return _Rows(self.layers, *here), _Rows(copies, parents, *rest)


def _merged(
    layers: list[SlotLayer], lengths: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, samples: torch.Tensor
) -> _Rows:
    """Samples with the same row of ``layers``, of ``lengths`` tokens, and the same next token share a row."""
    span = int(tokens.max()) + 1
    pairs, own = torch.unique(rows * span + tokens, return_inverse=True)
    return _Rows(layers, pairs // span, lengths[pairs // span], pairs % span, samples, own)


def _step(draws: Draws, parts: Sequence[_Rows], batch_size: int) -> tuple[torch.Tensor, _Rows | None]:
    """One token of every sample: those that are finished, int64[n], and the rows of the others. Uses up ``parts``."""
    own, last, samples = (torch.cat([getattr(part, n) for part in parts]) for n in ("lengths", "last", "samples"))
    shortest, longest = torch.stack([own.min(), own.max()]).tolist()
    sources = [part.parents for part in parts]
    cache, places = place_rows([part.layers for part in parts], sources, longest, batch_size)
    above = accumulate(map(len, sources), initial=0)
    rows = places[torch.cat([part.rows + offset for part, offset in zip(parts, above, strict=False)])]
    order = places.argsort()
    own, last = own[order], last[order]
    inputs = {"input_ids": last[:, None], "position_ids": own[:, None], "past_key_values": cache}
    # Without slots to leave out there is no mask: models choose faster attention then.
    if shortest < longest:
        inputs["attention_mask"] = (torch.arange(longest + 1, device=own.device) >= (longest - own)[:, None]).long()
    logits = draws.model(**inputs, use_cache=True).logits[:, -1]
    drawn, goes_on = draws.draw(logits, rows, samples, draws.lengths[samples])
    further = rows[goes_on], drawn[goes_on], samples[goes_on]
    return samples[~goes_on], _merged(cache.layers, own + 1, *further) if goes_on.any() else None


def sample_rows(
    draws: Draws, prompts: Sequence[Sequence[int]], counts: Sequence[int], batch_size: int
) -> Iterator[torch.Tensor]:
    """Draw all samples, ``counts`` of each prompt, at most ``batch_size`` rows together; yields int64[n] finished.

    A batch with too many rows is finished in parts. What waits joins a batch that has lost a quarter of its rows.
    """
    device, end, left, waiting = draws.lengths.device, sum(counts), [], []
    for ids, count in zip(reversed(prompts), reversed(counts), strict=True):
        samples, end = torch.arange(end - count, end, device=device), end - count
        left += [(ids, samples)] if count else []
    while waiting or left:
        parts, room = [], batch_size
        while (waiting or left) and room and (len(parts) != 1 or 4 * room >= batch_size):
            if waiting:
                part = waiting.pop()
            else:
                ids, samples = left.pop()
                cache, drawn, goes_on = draws.start(ids, samples)
                yield samples[~goes_on]
                if not goes_on.any():
                    continue
                lengths, rows = torch.full((1,), len(ids), device=device), torch.zeros_like(samples)
                part = _merged(slot_layers(cache), lengths, rows[goes_on], drawn[goes_on], samples[goes_on])
            if len(part.last) > room:
                part, rest = part.split(room)
                waiting.append(rest)
            parts.append(part)
            room -= len(part.last)
        if parts:
            finished, rest = _step(draws, parts, batch_size)
            yield finished
            waiting += [rest] if rest else []
