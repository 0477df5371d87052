"""Log-probabilities of continuations after contexts, in batches, with common starts run once.

Requests are run in three levels of rows, each over the key-value cache of the level before: what a group of contexts
has in common (a few-shot prompt, say); the rest of each context but its last token; that token and a continuation.
Rows are padded on the right, so a cache has holes, and which keys a token may see goes by the tokens' positions
(``pipeline.engines.scoring.tree_attention``). A model that takes no such mask runs every request as a row of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import Cache, DynamicCache

from pipeline.engines.loading.key_value_cache import select_rows
from pipeline.engines.loading.memory import MemoryLimit, Result, right_padded
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import RowScorer, ranges, token_scores
from pipeline.engines.scoring.tree_attention import supports_tree_attention, tree_attention_mask

# A shared prefix shorter than this saves less than the pass that it costs.
SHORTEST_SHARED = 16

Request = tuple[Sequence[int], Sequence[int]]
"""Token ids of a context and of its continuation, at least one each."""
Score = tuple[float, bool]
"""The continuation's log-likelihood, nats, and whether each of its tokens is the most probable one."""


def _score(scores: np.ndarray) -> Score:
    """Of ``token_scores``."""
    return float(scores[:, 0].sum()), bool(scores[:, 1].all())


def prefix_groups(sequences: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Put sequences with a long common start together: (tokens shared, indices) of each group.

    In lexicographic order, a sequence joins the group before it if at least half of it, and at least
    ``SHORTEST_SHARED`` tokens, is common to all of the group. Few-shot prompts of one task then share their examples,
    and prompts with examples of their own stay alone. A sequence alone shares all of its own.
    """
    groups: list[tuple[int, list[int]]] = []
    for index in sorted(range(len(sequences)), key=lambda index: (tuple(sequences[index]), index)):
        sequence = sequences[index]
        if groups:
            length, members = groups[-1]
            first = sequences[members[0]]
            differ = (place for place, pair in enumerate(zip(first, sequence, strict=False)) if pair[0] != pair[1])
            shared = min(length, len(sequence), next(differ, length))
            longest = max(len(sequence), *(len(sequences[member]) for member in members))
            if shared >= SHORTEST_SHARED and 2 * shared >= longest:
                groups[-1] = (shared, [*members, index])
                continue
        groups.append((len(sequence), [index]))
    return groups


@dataclass(frozen=True)
class _Rows:
    """R texts that the model has read: its cache of K slots, the position of each slot's token int64[R, K], False for
    padding bool[R, K], and the tokens of each row int64[R]."""

    cache: Cache
    positions: torch.Tensor
    filled: torch.Tensor
    lengths: torch.Tensor


class ContinuationScorer:
    """Scores continuations with one model in evaluation mode, with or without adapter.

    Args:
        model: Causal language model.
        tokens_per_pass: Tokens that the rows of one forward pass hold at most, cached ones and padding included; a
            longer row goes alone.

    Attributes:
        shares: Whether common starts are run once; without tree attention every request is run whole.
        positions: Tokens run so far, padding not counted.
    """

    def __init__(self, model: torch.nn.Module, tokens_per_pass: int):
        self._logits_at = position_logits(model)
        self.tokens_per_pass, self.positions = tokens_per_pass, 0
        self.shares = supports_tree_attention(self._logits_at.model)
        self._memory, self._rows = MemoryLimit(), RowScorer(self._logits_at, tokens_per_pass)

    @torch.inference_mode()
    def score(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Score]]]:
        """Score all requests; yields (index, score) as they are done, every index once, in no particular order.

        Raises ValueError for an empty context or continuation.
        """
        if any(not context or not continuation for context, continuation in requests):
            raise ValueError("a context and a continuation have at least one token each")
        yield from self._shared(requests) if self.shares else self._whole(requests)

    def _whole(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Score]]]:
        rows = [[*context, *continuation] for context, continuation in requests]
        for scored in self._rows.score(rows, [len(context) for context, _ in requests]):
            self.positions += sum(len(rows[index]) - 1 for index, _ in scored)
            yield [(index, _score(scores)) for index, scores in scored]

    def _shared(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Score]]]:
        by_context: dict[tuple[int, ...], list[int]] = {}
        for index, (context, _) in enumerate(requests):
            by_context.setdefault(tuple(context), []).append(index)
        contexts = list(by_context)
        groups = prefix_groups(contexts)
        # The last token of a context is run with each continuation, whose first token its state predicts.
        prefixes = [
            contexts[members[0]][: min(shared, min(len(contexts[member]) for member in members) - 1)]
            for shared, members in groups
        ]
        empty = torch.zeros(1, 0, dtype=torch.int64, device=self._logits_at.device)
        # Without configuration every layer keeps all keys, which the masks count on.
        nothing = _Rows(DynamicCache(), empty, empty.bool(), empty.sum(1))
        for places, (rows, _) in self._batches(nothing, [0] * len(groups), prefixes):
            inner = [member for place in places for member in groups[place][1]]
            parents = [row for row, place in enumerate(places) for _ in groups[place][1]]
            rests = [contexts[member][len(prefixes[place]) : -1] for place in places for member in groups[place][1]]
            for chosen, (context_rows, _) in self._batches(rows, parents, rests):
                leaves = [index for place in chosen for index in by_context[contexts[inner[place]]]]
                owners = [row for row, place in enumerate(chosen) for _ in by_context[contexts[inner[place]]]]
                segments = [[requests[index][0][-1], *requests[index][1][:-1]] for index in leaves]
                targets = [requests[index][1] for index in leaves]
                scored = self._batches(
                    context_rows,
                    owners,
                    segments,
                    lambda members, done, targets=targets: self._scores(done[1], [targets[i] for i in members]),
                )
                for members, scores in scored:
                    yield [(leaves[place], score) for place, score in zip(members, scores, strict=True)]

    def _scores(self, states: torch.Tensor, targets: Sequence[Sequence[int]]) -> list[Score]:
        """Of the tokens that the first states of each row [R, T, ...] predict."""
        sizes = np.array(list(map(len, targets)))
        places = np.repeat(np.arange(len(targets)), sizes), ranges(np.zeros_like(sizes), sizes)
        tokens = torch.tensor([token for target in targets for token in target], device=states.device)
        scores = token_scores(self._logits_at, states[places], tokens)
        return list(map(_score, np.split(scores, np.cumsum(sizes)[:-1])))

    def _batches(
        self,
        rows: _Rows,
        parents: Sequence[int],
        segments: Sequence[Sequence[int]],
        measure: Callable[[list[int], tuple[_Rows, torch.Tensor | None]], Result] = lambda members, done: done,
    ) -> Iterator[tuple[list[int], Result]]:
        """Run segments behind their parents among the cached ``rows``: members of a batch, and what comes of it."""

        def run(members: list[int]) -> Result:
            done = self._extend(rows, [parents[index] for index in members], [segments[index] for index in members])
            return measure(members, done)

        lengths = [rows.positions.shape[1] + len(segment) for segment in segments]
        return self._memory.run(lengths, self.tokens_per_pass, run)

    def _extend(
        self, rows: _Rows, parents: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[_Rows, torch.Tensor | None]:
        """The rows behind a forward pass, and the states [R, T, ...], None without tokens."""
        device = self._logits_at.device
        index = torch.tensor(parents, device=device)
        cache = select_rows(rows.cache, index)
        positions, filled, lengths = rows.positions[index], rows.filled[index], rows.lengths[index]
        ids, own = right_padded(segments, device)
        self.positions += sum(map(len, segments))
        if not ids.shape[1]:
            return _Rows(cache, positions, filled, lengths), None
        steps = torch.arange(ids.shape[1], device=device)
        queries = lengths[:, None] + steps
        seen = filled[:, None, :].expand(-1, len(steps), -1)
        allowed = torch.cat([seen, own[:, None, :] & (steps[:, None] >= steps)], dim=2)[:, None]
        positions, filled = torch.cat([positions, queries], dim=1), torch.cat([filled, own], dim=1)
        mask = tree_attention_mask(self._logits_at.model, allowed, queries, positions)
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": queries}
        states, _ = self._logits_at.forward({**inputs, "past_key_values": cache, "use_cache": True})
        return _Rows(cache, positions, filled, lengths + own.sum(1)), states
