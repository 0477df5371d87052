"""Two ways to sample many answers of one prompt, with the same result.

Sample n draws its step k with its own uniform number k from the law after its own prefix, so
it gets the same tokens whichever rows the model runs together (up to rounding of batched
matrix products). Both are generators of the samples that have just been finished.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from pipeline.core.sampling import sample_tokens
from pipeline.core.tries.constraint import TrieConstraint


@dataclass
class GenerationStatistics:
    """What sampling cost, summed over the calls it was handed to.

    Attributes:
        positions: Tokens run through the model: the prompt's, then one per row and step.
        forward_passes: Calls of the model.
    """

    positions: int = 0
    forward_passes: int = 0


class Draws:
    """Samples of one or several prompts: what they draw with and what they have drawn.

    Attributes:
        tokens: int64[N, max_new_tokens], the sampled tokens; 0 behind a sample's end.
        lengths: int64[N], tokens of each sample, the stop token included.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        uniforms: torch.Tensor,
        stop_ids: set[int],
        temperature: float,
        top_p: float,
        statistics: GenerationStatistics,
        constraint: TrieConstraint | None = None,
    ) -> None:
        """``uniforms`` is float64[N, max_new_tokens] on the model's device."""
        device = uniforms.device
        self.model, self.uniforms, self.statistics = model, uniforms, statistics
        self.temperature, self.top_p, self.max_new_tokens = temperature, top_p, uniforms.shape[1]
        self.stops = torch.tensor(sorted(stop_ids), dtype=torch.int64, device=device)
        self.tokens = torch.zeros(uniforms.shape, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(len(uniforms), dtype=torch.int64, device=device)
        # The trie prefix that each sample has reached, where a trie restricts what may follow.
        self._constraint, self._prefixes = constraint, torch.zeros_like(self.lengths)

    def run_prompt(self, prompt_ids: Sequence[int]) -> tuple[Cache, torch.Tensor]:
        """Keys and values of a prompt, one row, and the logits behind it, float[1, V]."""
        self._count(len(prompt_ids))
        ids = torch.tensor([list(prompt_ids)], device=self.uniforms.device)
        output = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        return output.past_key_values, output.logits[:, -1]

    def _count(self, positions: int) -> None:
        self.statistics.positions += positions
        self.statistics.forward_passes += 1

    def forward(
        self, cache: Cache, tokens: torch.Tensor, positions: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Extend every row of ``cache``, in place, by its token; float[R, V] logits of the next one.

        Args:
            cache: Keys and values of R rows.
            tokens: int64[R].
            positions: int64[R], places in the rows' texts, the prompt's tokens counted.
            attention_mask: int64[R, cache length + 1], 0 for slots to leave out; None for none.
        """
        self._count(len(tokens))
        # Without a mask the argument is left out: models choose faster attention then.
        mask = {} if attention_mask is None else {"attention_mask": attention_mask}
        output = self.model(
            input_ids=tokens[:, None], past_key_values=cache, position_ids=positions[:, None], use_cache=True, **mask
        )
        return output.logits[:, -1]

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor | None, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw and record token ``step`` (an int, or int64[n]) of ``samples`` (int64[n]) from their rows of logits.

        Returns:
            int64[n] tokens and bool[n], whether the sample goes on.
        """
        if self._constraint is not None:
            logits, rows = self._restricted(logits, rows, samples)
        drawn = sample_tokens(logits, self.uniforms[samples, step], self.temperature, self.top_p, rows)
        self.tokens[samples, step] = drawn
        self.lengths[samples] = step + 1
        if self._constraint is not None:
            self._prefixes[samples] = self._constraint.advance(self._prefixes[samples], drawn)
        goes_on = ~torch.isin(drawn, self.stops)
        return drawn, goes_on & (torch.as_tensor(step, device=drawn.device) + 1 < self.max_new_tokens)

    def _restricted(
        self, logits: torch.Tensor, rows: torch.Tensor | None, samples: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the rows that samples draw from, restricted to the trie, and the samples' rows among them."""
        rows = torch.arange(len(samples), device=samples.device) if rows is None else rows
        used, index = rows.unique(return_inverse=True)
        prefixes = torch.zeros_like(used)
        # Samples that share a row have the same tokens so far, so any of them may say which prefix that is.
        prefixes[index] = self._prefixes[samples]
        return self._constraint.restrict(logits[used], prefixes), index


class Sampler(Draws):
    """The samples of one prompt.

    Attributes:
        prompt_length: Tokens of the prompt.
        cache: The prompt's keys and values, one row; never changed.
    """

    def __init__(self, model: torch.nn.Module, prompt_ids: Sequence[int], *settings: Any) -> None:
        """Run the prompt. ``settings`` are those of ``Draws``."""
        super().__init__(model, *settings)
        self.prompt_length = len(prompt_ids)
        self.cache, self._prompt_logits = self.run_prompt(prompt_ids)

    def draw_first(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``draw`` step 0 of all samples; all draw from the law after the prompt."""
        samples = torch.arange(len(self.uniforms), device=self.uniforms.device)
        return self.draw(self._prompt_logits, torch.zeros_like(samples), samples, 0)


def select_rows(cache: Cache, rows: torch.Tensor) -> Cache:
    """A cache of the given rows, int64[R], with repeats allowed; ``cache`` itself stays as it is."""
    # These layers replace their tensors and never write into them, so the copy may share them at first.
    shared = (DynamicLayer, DynamicSlidingWindowLayer)
    selected = copy.copy(cache)
    selected.layers = [copy.copy(layer) if type(layer) in shared else copy.deepcopy(layer) for layer in cache.layers]
    selected.reorder_cache(rows)
    return selected


@dataclass(frozen=True)
class _Part:
    """Samples that are at the same step, and what the model needs to go on with them.

    Attributes:
        cache: Keys and values of the parents; parts that were split share it.
        parents: int64[R], for each distinct prefix the row of ``cache`` that holds it less its last token.
        last: int64[R], the last token of each distinct prefix.
        samples: int64[n], the samples of the part.
        rows: int64[n], the prefix, below R, that each sample has.
        step: Tokens in the prefixes.
    """

    cache: Cache
    parents: torch.Tensor
    last: torch.Tensor
    samples: torch.Tensor
    rows: torch.Tensor
    step: int


def _merge(
    cache: Cache, rows: torch.Tensor, tokens: torch.Tensor, samples: torch.Tensor, step: int, batch_size: int
) -> list[_Part]:
    """Give samples with the same row and token one row; split where there are more rows than ``batch_size``."""
    if not len(samples):
        return []
    span = int(tokens.max()) + 1
    pairs, rows, counts = torch.unique(rows * span + tokens, return_inverse=True, return_counts=True)
    parents, last = pairs // span, pairs % span
    if len(pairs) <= batch_size:
        return [_Part(cache, parents, last, samples, rows, step)]
    # A part has the rows whose first sample is in one window of batch_size samples: that is at most batch_size
    # rows, at most ceil(N / batch_size) parts, and parts that rarely need to be split again.
    owner = (counts.cumsum(0) - counts) // batch_size
    parts = []
    for part in owner.unique().tolist():
        first, end = (int(torch.searchsorted(owner, value)) for value in (part, part + 1))
        members = torch.nonzero((rows >= first) & (rows < end)).squeeze(1)
        parts.append(_Part(cache, parents[first:end], last[first:end], samples[members], rows[members] - first, step))
    return parts


def sample_merged(sampler: Sampler, batch_size: int) -> Iterator[torch.Tensor]:
    """Draw all samples; samples with the same tokens so far share one row of the model.

    Every distinct unfinished prefix is run once. Parts are finished one after the other, so
    there are caches of up to ``batch_size`` rows for the part at hand, for its parents, and
    for each earlier split that still has parts waiting.

    Yields:
        int64[n], samples that are finished; every sample once.
    """
    drawn, goes_on = sampler.draw_first()
    yield torch.nonzero(~goes_on).squeeze(1)
    samples = torch.nonzero(goes_on).squeeze(1)
    waiting = _merge(sampler.cache, torch.zeros_like(samples), drawn[samples], samples, 1, batch_size)
    while waiting:
        part = waiting.pop()
        cache = select_rows(part.cache, part.parents)
        positions = torch.full_like(part.last, sampler.prompt_length + part.step - 1)
        logits = sampler.forward(cache, part.last, positions)
        drawn, goes_on = sampler.draw(logits, part.rows, part.samples, part.step)
        yield part.samples[~goes_on]
        waiting += _merge(cache, part.rows[goes_on], drawn[goes_on], part.samples[goes_on], part.step + 1, batch_size)


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


def sample_rows(sampler: Sampler, batch_size: int) -> Iterator[torch.Tensor]:
    """Draw all samples, each in a row of its own, up to ``batch_size`` rows together.

    A finished row is given to the next sample at once where the model allows it
    (``can_refill``); else the samples are decoded in batches.

    Yields:
        int64[n], samples that are finished; every sample once.
    """
    first, goes_on = sampler.draw_first()
    yield torch.nonzero(~goes_on).squeeze(1)
    queue = torch.nonzero(goes_on).squeeze(1)
    size = len(queue) if can_refill(sampler.model, sampler.cache) else batch_size
    for batch in queue.split(max(size, 1)):
        yield from _decode_rows(sampler, first, batch, batch_size)


def _decode_rows(sampler: Sampler, first: torch.Tensor, queue: torch.Tensor, batch_size: int) -> Iterator[torch.Tensor]:
    """Decode the samples ``queue``, int64[n], with first tokens ``first``, int64[N], in ``batch_size`` rows.

    Every step adds one slot to every row. A row's own slots are the prompt's and those since
    it was given to its sample; those between are stale and masked out.
    """
    samples, queue = queue[:batch_size], queue[batch_size:]
    cache = select_rows(sampler.cache, torch.zeros_like(samples))
    tokens, steps, starts = first[samples], torch.ones_like(samples), torch.zeros_like(samples)
    # Rows that still have a sample; slots behind the prompt; stale slots that any row has.
    active, slots, stale = torch.arange(len(samples), device=samples.device), 0, False
    while len(active):
        mask = _slot_mask(sampler.prompt_length, slots + 1, starts) if stale else None
        logits = sampler.forward(cache, tokens, sampler.prompt_length + steps - 1, mask)
        slots += 1
        drawn, goes_on = sampler.draw(logits, active, samples[active], steps[active])
        yield samples[active[~goes_on]]
        tokens[active] = drawn
        steps += 1
        idle, active = active[~goes_on], active[goes_on]
        if len(queue) and len(idle):
            refilled, new = idle[: len(queue)], queue[: len(idle)]
            queue = queue[len(new) :]
            samples[refilled], tokens[refilled] = new, first[new]
            steps[refilled], starts[refilled] = 1, slots
            active, stale = torch.cat([active, refilled]), True
        if len(active) * 2 < len(samples):
            # Rows without a sample are dropped once they are the majority; copying the cache costs as much as a step.
            cache.reorder_cache(active)
            samples, tokens, steps, starts = samples[active], tokens[active], steps[active], starts[active]
            active = torch.arange(len(samples), device=samples.device)
        if stale and len(active):
            unused = int(starts[active].min())
            if unused * 4 > sampler.prompt_length + slots:
                _drop_slots(cache, sampler.prompt_length, unused)
                slots, starts = slots - unused, (starts - unused).clamp(min=0)


def _slot_mask(prompt_length: int, slots: int, starts: torch.Tensor) -> torch.Tensor:
    """int64[R, prompt_length + slots]: 1 for the prompt and for slots from starts[r] on."""
    own = torch.arange(slots, device=starts.device) >= starts[:, None]
    return torch.cat([own.new_ones(len(starts), prompt_length), own], dim=1).long()


def _drop_slots(cache: Cache, prompt_length: int, unused: int) -> None:
    """Remove the first ``unused`` slots behind the prompt, which are stale in every row."""
    for layer in cache.layers:
        for name in ("keys", "values"):
            states = getattr(layer, name)
            kept = [states[:, :, :prompt_length], states[:, :, prompt_length + unused :]]
            setattr(layer, name, torch.cat(kept, dim=2))
