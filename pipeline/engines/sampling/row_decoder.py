"""Decode many texts in one batch of rows: every step runs one token of every row.

A row is the prompt of the sample that it holds, then the sample's tokens, both padded with slots
that are masked out. The prompts are aligned at their ends:

    slots      0 1 2 3 4 5 | 6 7 8 9
    row 0      - - P P P P | s s s s
    row 1      P P P P P P | - - s s      was given to its sample two steps ago

A masked slot has no weight at all, and positions are those of the unpadded text, so a sample is
what it is alone, up to rounding of batched matrix products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from pipeline.engines.loading.key_value_cache import extendable, select_rows
from pipeline.engines.sampling.samplers import Draws


@dataclass(frozen=True)
class _Start:
    """A sample that goes on behind its first token, and its prompt: number, tokens, and its cache of one row."""

    sample: int
    token: int
    prompt: int
    length: int
    cache: Cache


def sample_rows(
    draws: Draws, prompts: Sequence[Sequence[int]], counts: Sequence[int], batch_size: int
) -> Iterator[torch.Tensor]:
    """Draw all samples, each in a row of its own, up to ``batch_size`` rows together.

    A finished row is given to the next sample at once, whichever prompt that has, where the model allows it
    (``can_refill``); else the samples are decoded in batches. A prompt is run when its first sample's turn comes.

    Args:
        draws: The samples' state.
        prompts: Token ids.
        counts: Samples of each prompt.
        batch_size: Most rows together.

    Yields:
        int64[n], samples that are finished; every sample once.
    """
    ended: list[torch.Tensor] = []
    starts = _starts(draws, prompts, counts, ended)
    while True:
        batch = list(islice(starts, batch_size))
        yield from ended
        ended.clear()
        if not batch:
            return
        yield from _decode(draws, batch, starts, ended)


def _decode(
    draws: Draws, batch: list[_Start], starts: Iterator[_Start], ended: list[torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Decode a batch, and what ``starts`` has beyond it, until no row has a sample."""
    rows = _Rows(draws, batch)
    # They hold their prompts' caches, which the batch has copied.
    batch.clear()
    while len(rows.active):
        yield rows.step()
        if rows.refills and rows.idle:
            rows.refill(list(islice(starts, rows.idle)))
            yield from ended
            ended.clear()
        rows.tidy()


def _starts(
    draws: Draws, prompts: Sequence[Sequence[int]], counts: Sequence[int], ended: list[torch.Tensor]
) -> Iterator[_Start]:
    """Run prompt by prompt; samples that end with their first token, int64[n], are added to ``ended``."""
    for prompt, cache, samples, drawn, goes_on in draws.first_tokens(prompts, counts):
        ended.append(samples[~goes_on])
        for sample, token in zip(samples[goes_on].tolist(), drawn[goes_on].tolist(), strict=True):
            yield _Start(sample, token, prompt, len(prompts[prompt]), cache)


def can_refill(model: torch.nn.Module, cache: Cache) -> bool:
    """Whether slots between the prompt and a row's tokens can be masked without consequences.

    False for layers that see a window of slots, where stale slots would push the prompt out,
    and for layers with a state other than keys and values.
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        kinds = ["sliding_attention" if windowed else "full_attention"]
    return set(kinds) == {"full_attention"} and all(type(layer) is DynamicLayer for layer in cache.layers)


class _Rows:
    """Rows under way.

    Attributes:
        active: int64[A], rows that have a sample.
        refills: Whether other rows can be given to further samples.
    """

    def __init__(self, draws: Draws, starts: Sequence[_Start]) -> None:
        """A batch with a row for each of ``starts``, which are in the order of their prompts."""
        self._draws, self._width, self._slots = draws, max(start.length for start in starts), 0
        self._cache = _stacked(starts, self._width)
        self.refills = can_refill(draws.model, self._cache)
        self._masked = any(start.length < self._width for start in starts)
        self.active = torch.arange(len(starts), device=draws.lengths.device)
        # Of each row: its sample, its last token, its prompt and how long that is, the tokens drawn so far, and the
        # slot behind the prompts where its own begin.
        self._samples, self._tokens, self._prompts, self._lengths, self._steps, self._first_slots = (
            torch.zeros_like(self.active) for _ in range(6)
        )
        self._assign(self.active, starts)

    @property
    def idle(self) -> int:
        """Rows without a sample."""
        return len(self._samples) - len(self.active)

    def _assign(self, rows: torch.Tensor, starts: Sequence[_Start]) -> None:
        columns = zip(*((start.sample, start.token, start.prompt, start.length) for start in starts), strict=True)
        for held, values in zip((self._samples, self._tokens, self._prompts, self._lengths), columns, strict=True):
            held[rows] = torch.tensor(values, device=rows.device)
        self._steps[rows], self._first_slots[rows] = 1, self._slots

    def refill(self, starts: Sequence[_Start]) -> None:
        """Give idle rows to further samples, in the order of their prompts."""
        if not starts:
            return
        free = torch.ones_like(self._samples, dtype=torch.bool)
        free[self.active] = False
        rows = torch.nonzero(free).squeeze(1)[: len(starts)]
        longest = max(start.length for start in starts)
        if longest > self._width:
            for layer, name in self._tensors():
                setattr(layer, name, _padded(getattr(layer, name), longest + self._slots))
            self._width = longest
        first = 0
        for prompt, group in groupby(starts, key=lambda start: start.prompt):
            members = list(group)
            targets = rows[first : first + len(members)]
            first += len(members)
            # A row that held a sample of the same prompt still has it.
            self._write(targets[self._prompts[targets] != prompt], members[0])
        self._assign(rows, starts)
        self.active, self._masked = torch.cat([self.active, rows]), True

    def _write(self, rows: torch.Tensor, start: _Start) -> None:
        """Put a prompt into rows. The tensors are this batch's own: every step makes new ones."""
        if len(rows):
            own = slice(self._width - start.length, self._width)
            for layer, prompt_layer in zip(self._cache.layers, start.cache.layers, strict=True):
                layer.keys[rows, :, own] = prompt_layer.keys
                layer.values[rows, :, own] = prompt_layer.values

    def step(self) -> torch.Tensor:
        """One token of every active sample. Returns the samples that are finished, int64[n]."""
        active = self.active
        mask = self._mask() if self._masked else None
        logits = self._draws.forward(self._cache, self._tokens, self._lengths + self._steps - 1, mask)
        self._slots += 1
        drawn, goes_on = self._draws.draw(logits, active, self._samples[active], self._steps[active])
        self._tokens[active] = drawn
        self._steps += 1
        self.active = active[goes_on]
        return self._samples[active[~goes_on]]

    def _mask(self) -> torch.Tensor:
        """int64[R, slots + 1]: 1 for a row's own prompt and tokens."""
        prompt = torch.arange(self._width, device=self.active.device) >= (self._width - self._lengths)[:, None]
        own = torch.arange(self._slots + 1, device=self.active.device) >= self._first_slots[:, None]
        return torch.cat([prompt, own], dim=1).long()

    def tidy(self) -> None:
        """Drop rows without a sample once they are the majority, and slots that no row needs once they are a quarter.

        Each copies the cache, which costs as much as a step.
        """
        if not len(self.active):
            return
        if len(self.active) < self.idle:
            self._cache.reorder_cache(self.active)
            for name in ("_samples", "_tokens", "_prompts", "_lengths", "_steps", "_first_slots"):
                setattr(self, name, getattr(self, name)[self.active])
            self.active = torch.arange(len(self.active), device=self.active.device)
        if self._masked and self.refills:
            lengths, first_slots = self._lengths[self.active], self._first_slots[self.active]
            longest, unused = torch.stack([lengths.max(), first_slots.min()]).tolist()
            if 4 * (self._width - longest + unused) > self._width + self._slots:
                self._drop_slots(longest, unused)

    def _drop_slots(self, longest: int, unused: int) -> None:
        """Keep ``longest`` slots of the prompts, and remove ``unused`` ones right behind them."""
        for layer, name in self._tensors():
            states = getattr(layer, name)
            kept = [states[:, :, self._width - longest : self._width], states[:, :, self._width + unused :]]
            setattr(layer, name, torch.cat(kept, dim=2))
        # Of an idle row's longer prompt the beginning is gone.
        self._prompts[self._lengths > longest] = -1
        self._width, self._slots = longest, self._slots - unused
        self._first_slots = (self._first_slots - unused).clamp(min=0)

    def _tensors(self) -> list[tuple[DynamicLayer, str]]:
        return [(layer, name) for layer in self._cache.layers for name in ("keys", "values")]


def _padded(states: torch.Tensor, slots: int) -> torch.Tensor:
    """float[R, H, slots, D]: further slots in front."""
    return torch.nn.functional.pad(states, (0, 0, slots - states.shape[2], 0))


def _stacked(starts: Sequence[_Start], width: int) -> Cache:
    """A cache with the prompts of ``starts``, which are in the order of their prompts, padded in front to ``width``."""
    caches = {start.prompt: start.cache for start in starts}
    if len(caches) == 1:
        return select_rows(starts[0].cache, torch.zeros(len(starts), dtype=torch.int64))
    rows = {prompt: sum(1 for _ in group) for prompt, group in groupby(start.prompt for start in starts)}
    stacked = extendable(starts[0].cache)
    for index, layer in enumerate(stacked.layers):
        # A layer that sees a window holds at most so many slots of any prompt.
        slots = max(cache.layers[index].keys.shape[2] for cache in caches.values())
        for name in ("keys", "values"):
            parts = {prompt: _padded(getattr(cache.layers[index], name), slots) for prompt, cache in caches.items()}
            setattr(layer, name, torch.cat([part.expand(rows[p], -1, -1, -1) for p, part in parts.items()]))
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = width
    return stacked
