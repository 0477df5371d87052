"""What samples draw with, and sampling with merged rows.

Sample n draws its step k with its own uniform number k from the law after its own prefix, so
it gets the same tokens whichever rows the model runs together (up to rounding of batched
matrix products). The two ways to run them, here and in ``row_decoder``, give the same result; both are generators
of the samples that have just been finished.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import Cache

from pipeline.core.sampling import sample_tokens
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.loading.key_value_cache import select_rows


@dataclass
class GenerationStatistics:
    """What sampling cost, summed over the calls it was handed to.

    Attributes:
        positions: Tokens run through the model: the prompt's, then one per row and step.
        forward_passes: Calls of the model.
    """

    positions: int = 0
    forward_passes: int = 0


class SamplingLaw(NamedTuple):
    """How a token is drawn from the model's law; see ``pipeline.core.sampling.sample_tokens``."""

    temperature: float
    top_p: float
    top_k: int | None


class Draws:
    """Samples of one or several prompts, and how their tokens are chosen (``choose``).

    Attributes:
        tokens: int64[N, max_new_tokens], the sampled tokens; 0 behind a sample's end.
        lengths: int64[N], tokens of each sample, the stop token included.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        num_samples: int,
        max_new_tokens: int,
        stop_ids: set[int],
        statistics: GenerationStatistics,
    ) -> None:
        """``stop_ids`` end a sample, as do ``max_new_tokens``; ``statistics`` counts what the model runs."""
        device = next(model.parameters()).device
        self.model, self.statistics, self.max_new_tokens = model, statistics, max_new_tokens
        self._stop_ids = torch.tensor(sorted(stop_ids), dtype=torch.int64, device=device)
        self.tokens = torch.zeros(num_samples, max_new_tokens, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(num_samples, dtype=torch.int64, device=device)

    def choose(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> torch.Tensor:
        """Token ``step`` of ``samples``, int64[n]; arguments as of ``draw``."""
        raise NotImplementedError

    def first_tokens(
        self, prompts: Sequence[Sequence[int]], counts: Sequence[int]
    ) -> Iterator[tuple[int, Cache, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Run prompt by prompt, and draw the first tokens of its samples, all from the law behind it.

        Args:
            prompts: Token ids.
            counts: Samples of each prompt, which follow each other; one without any is not run.

        Yields:
            The number of the prompt, its keys and values (one row), its samples int64[n], and what ``draw`` returns.
        """
        device, end = self.lengths.device, 0
        for prompt, (prompt_ids, count) in enumerate(zip(prompts, counts, strict=True)):
            samples, end = torch.arange(end, end + count, device=device), end + count
            if count:
                self._count(len(prompt_ids))
                ids = torch.tensor([list(prompt_ids)], device=device)
                output = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
                drawn, goes_on = self.draw(output.logits[:, -1], torch.zeros_like(samples), samples, 0)
                yield prompt, output.past_key_values, samples, drawn, goes_on

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
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw and record token ``step`` (an int, or int64[n]) of ``samples`` (int64[n]) from their rows of logits.

        Returns:
            int64[n] tokens and bool[n], whether the sample goes on.
        """
        drawn = self.choose(logits, rows, samples, step)
        self.tokens[samples, step] = drawn
        self.lengths[samples] = step + 1
        goes_on = ~torch.isin(drawn, self._stop_ids)
        return drawn, goes_on & (torch.as_tensor(step, device=drawn.device) + 1 < self.max_new_tokens)

    def drawn(self, samples: torch.Tensor) -> list[tuple[int, ...]]:
        """Tokens of ``samples``, int64[n], the stop token included."""
        rows, lengths = self.tokens[samples].tolist(), self.lengths[samples].tolist()
        return [tuple(row[:length]) for row, length in zip(rows, lengths, strict=True)]


class RandomDraws(Draws):
    """Samples of the model's law, each drawn with its own uniform numbers and under its own decoding setting."""

    def __init__(
        self,
        model: torch.nn.Module,
        uniforms: torch.Tensor,
        stop_ids: set[int],
        laws: Sequence[SamplingLaw],
        statistics: GenerationStatistics,
        constraint: TrieConstraint | None = None,
    ) -> None:
        """``uniforms`` is float64[N, max_new_tokens] on the model's device, ``laws`` has N entries; ``constraint``
        restricts every step."""
        super().__init__(model, *uniforms.shape, stop_ids, statistics)
        self._uniforms = uniforms
        self._laws = list(dict.fromkeys(laws))
        places = {law: place for place, law in enumerate(self._laws)}
        # The place of each sample's law among the different ones.
        self._law_of = torch.tensor([places[law] for law in laws], device=uniforms.device)
        # The trie prefix that each sample has reached, where a trie restricts what may follow.
        self._constraint, self._prefixes = constraint, torch.zeros_like(self.lengths)

    def choose(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor, step: int | torch.Tensor
    ) -> torch.Tensor:
        """See Draws."""
        if self._constraint is not None:
            logits, rows = self._restricted(logits, rows, samples)
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

    def _restricted(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the rows that samples draw from, restricted to the trie, and the samples' rows among them."""
        used, index = rows.unique(return_inverse=True)
        prefixes = torch.zeros_like(used)
        # Samples that share a row have the same tokens so far, so any of them may say which prefix that is.
        prefixes[index] = self._prefixes[samples]
        return self._constraint.restrict(logits[used], prefixes), index


def _sample(logits: torch.Tensor, uniforms: torch.Tensor, rows: torch.Tensor, law: SamplingLaw) -> torch.Tensor:
    return sample_tokens(logits, uniforms, law.temperature, law.top_p, rows, law.top_k)


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


def sample_merged(
    draws: Draws, prompts: Sequence[Sequence[int]], counts: Sequence[int], batch_size: int
) -> Iterator[torch.Tensor]:
    """Draw all samples; samples of a prompt with the same tokens so far share one row of the model.

    Every distinct unfinished prefix is run once. Parts are finished one after the other, so
    there are caches of up to ``batch_size`` rows for the part at hand, for its parents, and
    for each earlier split that still has parts waiting.

    Args:
        draws: The samples' state.
        prompts: Token ids.
        counts: Samples of each prompt.
        batch_size: Most rows together.

    Yields:
        int64[n], samples that are finished; every sample once.
    """
    for prompt, cache, samples, drawn, goes_on in draws.first_tokens(prompts, counts):
        yield samples[~goes_on]
        samples = samples[goes_on]
        waiting = _merge(cache, torch.zeros_like(samples), drawn[goes_on], samples, 1, batch_size)
        while waiting:
            part = waiting.pop()
            cache = select_rows(part.cache, part.parents)
            positions = torch.full_like(part.last, len(prompts[prompt]) + part.step - 1)
            logits = draws.forward(cache, part.last, positions)
            drawn, goes_on = draws.draw(logits, part.rows, part.samples, part.step)
            yield part.samples[~goes_on]
            ahead = part.rows[goes_on], drawn[goes_on], part.samples[goes_on]
            waiting += _merge(cache, *ahead, part.step + 1, batch_size)
