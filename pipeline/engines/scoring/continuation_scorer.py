"""Log-probabilities of continuations after contexts, in batches, with common starts run once.

Requests are run in three levels of rows, each over the key-value cache of the level before:

1. what a group of contexts has in common (a few-shot prompt, say), one row per group;
2. the rest of each context but its last token, one row per context;
3. the context's last token and the continuation, one row per request.

Rows are padded on the right, so a cache has holes. Which keys a token may see, and how far a sliding
window reaches, therefore goes by the tokens' positions: see ``pipeline.engines.scoring.tree_attention``. A
model that takes no such mask runs every request as a plain row of its own.
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


@dataclass(frozen=True)
class Score:
    """What a model thinks of a continuation.

    Attributes:
        log_likelihood: Sum of its tokens' log-probabilities, nats, normalised over the full vocabulary in float32.
        is_greedy: Whether every token is the most probable one.
    """

    log_likelihood: float
    is_greedy: bool


def _score(scores: np.ndarray) -> Score:
    """Of ``token_scores``."""
    return Score(float(scores[:, 0].sum()), bool(scores[:, 1].all()))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens that two sequences share at the start."""
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return min(len(first), len(second))


def prefix_groups(sequences: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Put sequences with a long common start together.

    In lexicographic order, a sequence joins the group before it if at least half of it, and at least
    ``SHORTEST_SHARED`` tokens, is common to all of the group. Few-shot prompts of one task then share
    their examples, and prompts with examples of their own stay alone.

    Args:
        sequences: Token ids, at least one each.

    Returns:
        (tokens shared, indices into ``sequences``) of each group; a sequence alone shares all of its own.
        Every index occurs once.
    """
    order = sorted(range(len(sequences)), key=lambda index: (tuple(sequences[index]), index))
    groups: list[tuple[int, list[int]]] = []
    for index in order:
        sequence = sequences[index]
        if groups:
            length, members = groups[-1]
            shared = min(length, common_prefix(sequences[members[0]], sequence))
            longest = max(len(sequence), *(len(sequences[member]) for member in members))
            if shared >= SHORTEST_SHARED and 2 * shared >= longest:
                groups[-1] = (shared, [*members, index])
                continue
        groups.append((len(sequence), [index]))
    return groups


@dataclass(frozen=True)
class _Rows:
    """Texts that the model has read.

    Attributes:
        cache: Keys and values, R rows of K slots.
        positions: int64[R, K], position of each slot's token.
        filled: bool[R, K], False for padding.
        lengths: int64[R], tokens of each row.
    """

    cache: Cache
    positions: torch.Tensor
    filled: torch.Tensor
    lengths: torch.Tensor


class ContinuationScorer:
    """Scores continuations with one model in evaluation mode, with or without adapter.

    Args:
        model: Causal language model.
        tokens_per_pass: Tokens that the rows of one forward pass hold at most, cached ones and padding
            included; a longer row goes alone.

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
        """Score all requests, and hand them over as they are done.

        Yields:
            (index of the request, its score); every index once, in no particular order.

        Raises:
            ValueError: An empty context or continuation.
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
        for rows, places in self._extended(self._nothing(), [0] * len(groups), prefixes):
            inner = [member for place in places for member in groups[place][1]]
            parents = [row for row, place in enumerate(places) for _ in groups[place][1]]
            rests = [contexts[member][len(prefixes[place]) : -1] for place in places for member in groups[place][1]]
            for context_rows, chosen in self._extended(rows, parents, rests):
                leaves = [index for place in chosen for index in by_context[contexts[inner[place]]]]
                owners = [row for row, place in enumerate(chosen) for _ in by_context[contexts[inner[place]]]]
                yield from self._continuations(context_rows, owners, leaves, requests)

    def _nothing(self) -> _Rows:
        empty = torch.zeros(1, 0, dtype=torch.int64, device=self._logits_at.device)
        # Without configuration every layer keeps all keys, which the masks count on.
        return _Rows(DynamicCache(), empty, empty.bool(), empty.sum(1))

    def _extended(
        self, rows: _Rows, parents: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> Iterator[tuple[_Rows, list[int]]]:
        """Rows of each segment behind its parent row, batch by batch, with the segments' indices."""

        def run(members: list[int]) -> _Rows:
            return self._extend(rows, [parents[index] for index in members], [segments[index] for index in members])[0]

        for members, extended in self._batches(rows, segments, run):
            yield extended, members

    def _continuations(
        self, rows: _Rows, owners: Sequence[int], leaves: Sequence[int], requests: Sequence[Request]
    ) -> Iterator[list[tuple[int, Score]]]:
        segments = [[requests[index][0][-1], *requests[index][1][:-1]] for index in leaves]

        def run(members: list[int]) -> list[Score]:
            _, states = self._extend(rows, [owners[place] for place in members], [segments[place] for place in members])
            targets = [requests[leaves[place]][1] for place in members]
            sizes = np.array(list(map(len, targets)))
            places = np.repeat(np.arange(len(targets)), sizes), ranges(np.zeros_like(sizes), sizes)
            tokens = torch.tensor([token for target in targets for token in target], device=states.device)
            scores = token_scores(self._logits_at, states[places], tokens)
            return list(map(_score, np.split(scores, np.cumsum(sizes)[:-1])))

        for members, scores in self._batches(rows, segments, run):
            yield [(leaves[place], score) for place, score in zip(members, scores, strict=True)]

    def _batches(
        self, rows: _Rows, segments: Sequence[Sequence[int]], run: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """Batches of segments behind the cached ``rows``, and what ``run`` returns for them."""
        lengths = [rows.positions.shape[1] + len(segment) for segment in segments]
        return self._memory.run(lengths, self.tokens_per_pass, run)

    def _extend(
        self, rows: _Rows, parents: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[_Rows, torch.Tensor | None]:
        """Run segments behind their parents' rows; the new rows and the states [R, T, ...], None without tokens."""
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
