"""Log-probabilities of continuations after contexts, in batches, with common starts run once.

Requests are run in three levels of rows, each over the key-value cache of the level before:

1. what a group of contexts has in common (a few-shot prompt, say), one row per group;
2. the rest of each context but its last token, one row per context;
3. the context's last token and the continuation, one row per request.

Rows are padded on the right, so a cache has holes. Which keys a token may see, and how far a sliding
window reaches, therefore goes by the tokens' positions: see ``pipeline.engines.scoring.tree_attention``. A
model that takes no such mask runs every request as a plain row of its own.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import Cache, DynamicCache

from pipeline.engines.loading.memory import MemoryLimit, Result
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.length_buckets import length_buckets
from pipeline.engines.scoring.prefix_groups import prefix_groups
from pipeline.engines.scoring.tree_attention import supports_tree_attention, tree_attention_mask

# Logits held at a time: 64 MiB in float32.
LOGITS_PER_CALL = 1 << 24

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
        share: Run common starts once. False, or a model without tree attention, runs every request whole.

    Attributes:
        positions: Tokens run so far, padding not counted.
    """

    def __init__(self, model: torch.nn.Module, tokens_per_pass: int, share: bool = True):
        self.head = position_logits(model)
        self.model, self.tokens_per_pass = self.head.model, tokens_per_pass
        self.shares = share and supports_tree_attention(self.model)
        self.device = self.model.get_input_embeddings().weight.device
        self.positions, self._memory = 0, MemoryLimit()

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
        rows = [[*context, *continuation[:-1]] for context, continuation in requests]
        lengths = [len(row) for row in rows]

        def run(members: list[int]) -> list[tuple[int, Score]]:
            ids, filled = self._padded([rows[index] for index in members])
            states = self._states({"input_ids": ids, "attention_mask": filled.long(), "use_cache": False})
            return self._scores(states, members, [len(requests[index][0]) - 1 for index in members], requests)

        for _, scores in self._memory.run(length_buckets(lengths, self.tokens_per_pass), lengths, run):
            yield scores

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
        empty = torch.zeros(1, 0, dtype=torch.int64, device=self.device)
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

        def run(members: list[int]) -> list[tuple[int, Score]]:
            part = [segments[place] for place in members]
            _, states = self._extend(rows, [owners[place] for place in members], part)
            return self._scores(states, [leaves[place] for place in members], [0] * len(members), requests)

        for _, scores in self._batches(rows, segments, run):
            yield scores

    def _batches(
        self, rows: _Rows, segments: Sequence[Sequence[int]], run: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """Batches of segments behind the cached ``rows``, and what ``run`` returns for them."""
        lengths = [rows.positions.shape[1] + len(segment) for segment in segments]
        return self._memory.run(length_buckets(lengths, self.tokens_per_pass), lengths, run)

    def _extend(
        self, rows: _Rows, parents: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[_Rows, torch.Tensor | None]:
        """Run segments behind their parents' rows; the new rows and the states [R, T, ...], None without tokens."""
        index = torch.tensor(parents, device=self.device)
        # Selecting rows and running the model replace the layers' tensors and write into none.
        cache = copy.copy(rows.cache)
        cache.layers = [copy.copy(layer) for layer in rows.cache.layers]
        if cache.layers:
            cache.batch_select_indices(index)
        positions, filled, lengths = rows.positions[index], rows.filled[index], rows.lengths[index]
        ids, own = self._padded(segments)
        if not ids.shape[1]:
            return _Rows(cache, positions, filled, lengths), None
        steps = torch.arange(ids.shape[1], device=self.device)
        queries = lengths[:, None] + steps
        seen = filled[:, None, :].expand(-1, len(steps), -1)
        allowed = torch.cat([seen, own[:, None, :] & (steps[:, None] >= steps)], dim=2)[:, None]
        positions, filled = torch.cat([positions, queries], dim=1), torch.cat([filled, own], dim=1)
        mask = tree_attention_mask(self.model, allowed, queries, positions)
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": queries}
        states = self._states({**inputs, "past_key_values": cache, "use_cache": True})
        return _Rows(cache, positions, filled, lengths + own.sum(1)), states

    def _padded(self, segments: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """int64[R, T] tokens, padded on the right, and bool[R, T], which of them are any."""
        lengths = torch.tensor([len(segment) for segment in segments], device=self.device)
        self.positions += int(lengths.sum())
        width = int(lengths.max())
        ids = torch.tensor([[*segment, *[0] * (width - len(segment))] for segment in segments], dtype=torch.int64)
        return ids.to(self.device), torch.arange(width, device=self.device) < lengths[:, None]

    def _states(self, inputs: dict) -> torch.Tensor:
        """Hidden states [R, T, H], or logits [R, T, V] where the head is not one linear map."""
        if self.head.gathers_hidden:
            return self.model.base_model(**inputs).last_hidden_state
        return self.model(**inputs).logits

    def _scores(
        self, states: torch.Tensor, members: Sequence[int], starts: Sequence[int], requests: Sequence[Request]
    ) -> list[tuple[int, Score]]:
        """Scores of ``members``, whose continuations are predicted from column ``starts[row]`` of their rows on."""
        targets = [requests[index][1] for index in members]
        sizes = [len(target) for target in targets]
        rows = torch.repeat_interleave(torch.arange(len(members)), torch.tensor(sizes))
        columns = torch.tensor(
            [start + step for start, size in zip(starts, sizes, strict=True) for step in range(size)]
        )
        tokens = torch.tensor([token for target in targets for token in target], device=self.device)
        gathered = states[rows.to(self.device), columns.to(self.device)]
        size = max(1, LOGITS_PER_CALL // self.head.vocabulary)
        values, greedy = [], []
        for part, wanted in zip(gathered.split(size), tokens.split(size), strict=True):
            logits = self.head.head(part).float()
            chosen = logits.gather(1, wanted[:, None])[:, 0]
            values.append(chosen - logits.logsumexp(1))
            greedy.append(chosen == logits.amax(1))
        per_request = zip(
            members, torch.cat(values).double().cpu().split(sizes), torch.cat(greedy).cpu().split(sizes), strict=True
        )
        return [(index, Score(float(value.sum()), bool(is_greedy.all()))) for index, value, is_greedy in per_request]
