"""How the tokens of samples are drawn, and decoding of all samples of many prompts in shared rows.

Sample n draws its step k with its own uniform number k from the law after its own prefix, so it gets the same tokens
whichever rows the model runs together, up to rounding of batched matrix products.

A row of the model is a prompt and tokens that one or more of its samples begin with, so every distinct prefix is run
once. Rows share the keys and values of their prompt. All end at the same slot; what lies in front of fewer is masked:

    row 0      prompt 0    s s s s      of two samples
    row 1      prompt 1    - - s s      of one, whose prompt joined two steps ago
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from pipeline.core.sampling import sample_tokens
from pipeline.core.tries.constraint import TrieConstraint
from pipeline.engines.loading.model import LAST
from pipeline.engines.sampling.slots import Prompts, SharedPrompts, SlotLayer, place_rows, shared_attention


class SamplingLaw(NamedTuple):
    """How a token is drawn from the model's law; see ``pipeline.core.sampling.sample_tokens``."""

    temperature: float
    top_p: float
    top_k: int | None = None


def first_stop(text: str, stops: Sequence[str]) -> int:
    """Where the first of the stop strings begins in ``text``; -1 if there is none."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=-1)


def uniform_numbers(seed: int) -> Iterator[float]:
    """The stream of a seed. No generator is kept: there may be many streams, and one has kilobytes."""
    used, count = 0, 8
    while True:
        yield from np.random.Generator(np.random.Philox(seed)).random(count)[used:].tolist()
        used, count = count, 2 * count


@dataclass(eq=False, kw_only=True, slots=True)
class Draw:
    """A sample that is drawn by the numbers of its seed: until a stop token, a string of ``stops``, or ``limit``."""

    seed: int
    law: SamplingLaw
    limit: int
    stops: Sequence[str] = ()
    tokens: list[int] = field(default_factory=list)  # the stop token included
    prefix: int = 0  # where the tokens have led to in the trie of a constraint
    numbers: Iterator[float] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = uniform_numbers(self.seed)


class Draws:
    """The samples that are drawn with a model, by an integer that stands for each in tensors.

    ``constraint`` restricts them to a trie.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        samples: dict[int, Draw],
        constraint: TrieConstraint | None = None,
    ) -> None:
        self.model, self.samples, self.device = model, samples, next(model.parameters()).device
        self._tokenizer, self._stop_ids, self._constraint = tokenizer, stop_ids, constraint

    def run(self, prompt_ids: Sequence[int]) -> tuple[Prompts, torch.Tensor]:
        """Run a prompt: its keys and values, and logits of the token behind it, float[1, V]."""
        ids = torch.tensor([list(prompt_ids)], device=self.device)
        output = self.model(input_ids=ids, use_cache=True, logits_to_keep=LAST)
        return Prompts.of_cache(output.past_key_values), output.logits[:, -1]

    def draw(
        self, logits: torch.Tensor, rows: torch.Tensor, samples: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw and record the next token of ``samples``: tokens int64[n], and bool[n], whether they go on."""
        own = [self.samples[sample] for sample in samples.tolist()]
        drawn = self._choose(logits, rows, own)
        for sample, token in zip(own, drawn.tolist(), strict=True):
            sample.tokens.append(token)
        return drawn, torch.tensor([self._goes_on(sample) for sample in own], device=self.device)

    def _goes_on(self, sample: Draw) -> bool:
        if len(sample.tokens) >= sample.limit or sample.tokens[-1] in self._stop_ids:
            return False
        if not sample.stops:
            return True
        # A token is at least one byte, so a stop string that has just ended lies within so many tokens.
        window = max(len(stop.encode()) for stop in sample.stops) + 1
        tail = self._tokenizer.decode(sample.tokens[-window:], skip_special_tokens=True)
        return first_stop(tail, sample.stops) < 0

    def _choose(self, logits: torch.Tensor, rows: torch.Tensor, own: Sequence[Draw]) -> torch.Tensor:
        if self._constraint is not None:
            used, rows = rows.unique(return_inverse=True)
            reached = torch.tensor([sample.prefix for sample in own], device=self.device)
            prefixes = torch.zeros_like(used)
            # Samples that share a row have the same tokens so far, so any of them may say which prefix that is.
            prefixes[rows] = reached
            logits = self._constraint.restrict(logits[used], prefixes)
        uniforms = torch.tensor([next(sample.numbers) for sample in own], dtype=torch.float64, device=self.device)
        laws = {law: place for place, law in enumerate(dict.fromkeys(sample.law for sample in own))}
        if len(laws) == 1:
            drawn = _sample(logits, uniforms, rows, own[0].law)
        else:
            drawn, law_of = torch.empty_like(rows), [laws[sample.law] for sample in own]
            law_of = torch.tensor(law_of, device=self.device)
            for law, place in laws.items():
                alike = law_of == place
                used, index = rows[alike].unique(return_inverse=True)
                drawn[alike] = _sample(logits[used], uniforms[alike], index, law)
        if self._constraint is not None:
            for sample, prefix in zip(own, self._constraint.advance(reached, drawn).tolist(), strict=True):
                sample.prefix = prefix
        return drawn


def _sample(logits: torch.Tensor, uniforms: torch.Tensor, rows: torch.Tensor, law: SamplingLaw) -> torch.Tensor:
    if law.top_k == 1:
        return logits.argmax(dim=-1)[rows]
    return sample_tokens(logits, uniforms, law.temperature, law.top_p, rows, law.top_k)


@dataclass
class _Rows:
    """R distinct prefixes that are run together, and the n samples that have them.

    Each begins with the prompt ``of`` int64[R]. ``layers`` have keys and values of the ``parents`` int64[R], ascending,
    the rows that hold what follows it less the ``last`` token int64[R], ``lengths`` int64[R] tokens; rows that were
    split share it. ``rows`` int64[n] is the prefix of each of the ``samples`` int64[n].
    """

    prompts: Prompts
    layers: list[SlotLayer]
    of: torch.Tensor
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
        return (
            _Rows(self.prompts, self.layers, self.of[:first], *here),
            _Rows(self.prompts, copies, self.of[first:], parents, *rest),
        )


def _merged(
    prompts: Prompts,
    layers: list[SlotLayer],
    of: torch.Tensor,
    lengths: torch.Tensor,
    rows: torch.Tensor,
    tokens: torch.Tensor,
    samples: torch.Tensor,
) -> _Rows:
    """Samples with the same row of ``layers``, of ``lengths`` tokens, and the same next token share a row."""
    span = int(tokens.max()) + 1
    pairs, own = torch.unique(rows * span + tokens, return_inverse=True)
    held = pairs // span
    return _Rows(prompts, layers, of[held], held, lengths[held], pairs % span, samples, own)


def _step(draws: Draws, parts: Sequence[_Rows], batch_size: int) -> tuple[torch.Tensor, _Rows | None]:
    """One token of every sample: those that are finished, int64[n], and the rows of the others. Uses up ``parts``."""
    own, last, samples = (torch.cat([getattr(part, n) for part in parts]) for n in ("lengths", "last", "samples"))
    prompts, of = Prompts.joined([part.prompts for part in parts], [part.of for part in parts])
    sources = [part.parents for part in parts]
    cache, places = place_rows([part.layers for part in parts], sources, int(own.max()), batch_size)
    above = accumulate(map(len, sources), initial=0)
    rows = places[torch.cat([part.rows + offset for part, offset in zip(parts, above, strict=False)])]
    order = places.argsort()
    own, last, of = own[order], last[order], of[order]
    inputs = {"input_ids": last[:, None], "position_ids": (prompts.lengths[of] + own)[:, None]}
    with shared_attention(draws.model) as options:
        shared = SharedPrompts(prompts, of, own)
        output = draws.model(**inputs, **options, past_key_values=cache, use_cache=True, shared_prompts=shared)
    drawn, goes_on = draws.draw(output.logits[:, -1], rows, samples)
    further = rows[goes_on], drawn[goes_on], samples[goes_on]
    return samples[~goes_on], _merged(prompts, cache.layers, of, own + 1, *further) if goes_on.any() else None


def sample_rows(
    draws: Draws, left: dict[tuple[int, ...], Sequence[int]], batch_size: int, prompts_kept: int = 0
) -> Iterator[Sequence[int]]:
    """Draw samples, which ``left`` has by prompt, at most ``batch_size`` rows together; yields those finished.

    A batch with too many rows is finished in parts. What waits joins a batch that has lost a quarter of its rows.
    Between two steps ``left`` may get more, and a limit of 0 drops a sample. The ``prompts_kept`` last prompts are not
    run again for samples that come later.
    """
    run, waiting = lru_cache(prompts_kept)(draws.run), []
    while waiting or left:
        parts, room = [], batch_size
        while (waiting or left) and room and (len(parts) != 1 or 4 * room >= batch_size):
            if waiting:
                part = waiting.pop()
            else:
                ids = next(iter(left))
                numbers = left.pop(ids)
                # A prompt is not run for samples that have been dropped meanwhile.
                if not any(draws.samples[number].limit for number in numbers):
                    yield numbers
                    continue
                prompt, logits = run(ids)
                samples = torch.tensor(numbers, device=draws.device)
                rows, none = torch.zeros_like(samples), samples.new_zeros(1)
                drawn, goes_on = draws.draw(logits, rows, samples)
                yield samples[~goes_on].tolist()
                if not goes_on.any():
                    continue
                further = rows[goes_on], drawn[goes_on], samples[goes_on]
                part = _merged(prompt, prompt.slots(), none, none, *further)
            if len(part.last) > room:
                part, rest = part.split(room)
                waiting.append(rest)
            parts.append(part)
            room -= len(part.last)
        if parts:
            finished, rest = _step(draws, parts, batch_size)
            yield finished.tolist()
            waiting += [rest] if rest else []
