"""Sample the answers of many prompts in one batch of rows.

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

import torch
from transformers import Cache

from pipeline.engines.sampling.samplers import Draws, can_refill, select_rows

REFILL_SHARE = 8
"""Rows are refilled once one in so many is idle."""


@dataclass(frozen=True)
class _Start:
    """A sample that goes on behind its first token: its prompt's keys and values (one row), and the two lengths."""

    sample: int
    token: int
    cache: Cache
    prompt_length: int


def sample_prompts(
    draws: Draws, prompts: Sequence[Sequence[int]], owners: Sequence[int], batch_size: int
) -> Iterator[torch.Tensor]:
    """Draw all samples, each in a row of its own, up to ``batch_size`` rows together.

    A finished row is given to the next sample soon, whichever prompt that has, where the model allows it
    (``can_refill``); else the samples are decoded in batches. A prompt is run when its first sample's turn comes.

    Args:
        draws: The samples' state.
        prompts: Token ids.
        owners: The prompt of each sample, ascending.
        batch_size: Most rows together.

    Yields:
        int64[n], samples that are finished; every sample once.
    """
    starts, ended = _starts(draws, prompts, owners), []
    rows: _Rows | None = None
    while True:
        free = batch_size if rows is None else rows.free(batch_size)
        waiting: list[_Start] = []
        while len(waiting) < free and (item := next(starts, None)) is not None:
            (waiting if isinstance(item, _Start) else ended).append(item)
        yield from ended
        ended.clear()
        if waiting:
            rows = _Rows(draws, waiting) if rows is None else rows.refill(waiting)
        if rows is None:
            return
        yield rows.step()
        if not len(rows.active):
            rows = None


def _starts(draws: Draws, prompts: Sequence[Sequence[int]], owners: Sequence[int]) -> Iterator[_Start | torch.Tensor]:
    """Run prompt by prompt: first the samples that end with their first token, int64[n], then the others."""
    device, owner_of = draws.lengths.device, torch.tensor(list(owners))
    for owner, prompt_ids in enumerate(prompts):
        samples = torch.nonzero(owner_of == owner).squeeze(1).to(device)
        if len(samples):
            cache, logits = draws.run_prompt(prompt_ids)
            drawn, goes_on = draws.draw(logits, torch.zeros_like(samples), samples, 0)
            yield samples[~goes_on]
            for sample, token in zip(samples[goes_on].tolist(), drawn[goes_on].tolist(), strict=True):
                yield _Start(sample, token, cache, len(prompt_ids))


class _Rows:
    """Rows under way.

    Attributes:
        active: int64[A], rows that have a sample.
    """

    def __init__(self, draws: Draws, starts: Sequence[_Start]) -> None:
        """A batch with a row for each of ``starts``."""
        self._draws, self._width, self._slots = draws, max(start.prompt_length for start in starts), 0
        self._cache = _stacked([start.cache for start in starts], self._width)
        self._refills = can_refill(draws.model, self._cache)
        device = draws.lengths.device
        self._samples, self._tokens, self._prompt_lengths = (
            torch.tensor(values, device=device)
            for values in zip(*((start.sample, start.token, start.prompt_length) for start in starts), strict=True)
        )
        # Tokens drawn, and the slot behind the prompts where the row's own begin.
        self._steps, self._first_slots = torch.ones_like(self._samples), torch.zeros_like(self._samples)
        self.active = torch.arange(len(starts), device=device)

    def free(self, batch_size: int) -> int:
        """Samples that are worth taking in now: each time costs copies of the cache, about as much as a step."""
        idle = batch_size - len(self.active)
        return idle if self._refills and idle * REFILL_SHARE >= batch_size else 0

    def refill(self, starts: Sequence[_Start]) -> "_Rows":
        """Give rows to further samples: idle ones first, then new ones. Returns itself."""
        self._keep(self.active)
        self._drop_unused_slots()
        added = _Rows(self._draws, starts)
        width = max(self._width, added._width)
        for layer, other in zip(self._cache.layers, added._cache.layers, strict=True):
            for name in ("keys", "values"):
                old = _padded(getattr(layer, name), width + self._slots)
                # The new rows have no slots behind the prompt yet: what is there is masked out.
                new = torch.nn.functional.pad(_padded(getattr(other, name), width), (0, 0, 0, self._slots))
                setattr(layer, name, torch.cat([old, new]))
        added._first_slots += self._slots
        for name in ("_samples", "_tokens", "_prompt_lengths", "_steps", "_first_slots"):
            setattr(self, name, torch.cat([getattr(self, name), getattr(added, name)]))
        self._width, self.active = width, torch.arange(len(self._samples), device=self.active.device)
        return self

    def step(self) -> torch.Tensor:
        """One token of every active sample. Returns the samples that are finished, int64[n]."""
        draws, active = self._draws, self.active
        positions = self._prompt_lengths + self._steps - 1
        logits = draws.forward(self._cache, self._tokens, positions, self._mask())
        self._slots += 1
        drawn, goes_on = draws.draw(logits, active, self._samples[active], self._steps[active])
        self._tokens[active] = drawn
        self._steps += 1
        finished, self.active = self._samples[active[~goes_on]], active[goes_on]
        if len(self.active) * 2 < len(self._samples) and len(self.active):
            self._keep(self.active)
        return finished

    def _mask(self) -> torch.Tensor | None:
        """int64[R, slots + 1]: 1 for a row's own prompt and tokens; None where that is all there is."""
        if bool((self._prompt_lengths == self._width).all()) and not bool(self._first_slots.any()):
            return None
        device = self._tokens.device
        prompt = torch.arange(self._width, device=device) >= (self._width - self._prompt_lengths)[:, None]
        own = torch.arange(self._slots + 1, device=device) >= self._first_slots[:, None]
        return torch.cat([prompt, own], dim=1).long()

    def _keep(self, rows: torch.Tensor) -> None:
        """Drop the other rows."""
        if len(rows) == len(self._samples):
            return
        self._cache.reorder_cache(rows)
        for name in ("_samples", "_tokens", "_prompt_lengths", "_steps", "_first_slots"):
            setattr(self, name, getattr(self, name)[rows])
        self.active = torch.arange(len(rows), device=rows.device)

    def _drop_unused_slots(self) -> None:
        """Remove slots that are masked out in every row: before the longest prompt, and right behind the prompts."""
        width, unused = int(self._prompt_lengths.max()), int(self._first_slots.min())
        for layer in self._cache.layers:
            for name in ("keys", "values"):
                states = getattr(layer, name)
                kept = [states[:, :, self._width - width : self._width], states[:, :, self._width + unused :]]
                setattr(layer, name, torch.cat(kept, dim=2))
        self._width, self._slots, self._first_slots = width, self._slots - unused, self._first_slots - unused


def _padded(states: torch.Tensor, slots: int) -> torch.Tensor:
    """float[R, H, slots, D]: further slots in front."""
    return torch.nn.functional.pad(states, (0, 0, slots - states.shape[2], 0))


def _stacked(caches: Sequence[Cache], width: int) -> Cache:
    """A cache of several prompts' rows, each padded in front to ``width`` tokens."""
    device = caches[0].layers[0].keys.device
    stacked = select_rows(caches[0], torch.zeros(1, dtype=torch.int64, device=device))
    for index, layer in enumerate(stacked.layers):
        # A layer that sees a window holds at most so many slots of any prompt.
        slots = max(cache.layers[index].keys.shape[2] for cache in caches)
        for name in ("keys", "values"):
            parts = [_padded(getattr(cache.layers[index], name), slots) for cache in caches]
            setattr(layer, name, torch.cat(parts))
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = width
    return stacked
