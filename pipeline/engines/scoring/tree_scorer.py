"""A model's log-probabilities after every prefix of a token tree, behind one prompt.

Two strategies give the same numbers up to rounding:

``packed``: the tree is walked depth first and cut into chunks of a token budget; a chunk holds
    its nodes and their ancestors and is one forward pass with tree attention over the
    prompt's cache.
``levels``: the nodes of one depth are rows of one token each over the cache rows of their
    parents. Needs nothing but a cache whose rows can be selected, so it serves every architecture.

Only the hidden states of prefixes that something is asked of reach the output head
(``pipeline.engines.scoring.token_scores``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import Cache, DynamicCache

from pipeline.core.training.batches import depth_first_order, subtree
from pipeline.core.tries.token_tree import ROOT, TokenTree, merge_sequences
from pipeline.core.tries.trie import Trie
from pipeline.engines.loading.key_value_cache import extendable, select_rows
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import candidate_log_probabilities, ranges
from pipeline.engines.scoring.tree_attention import allowed_keys, supports_tree_attention, tree_attention_mask

STRATEGIES = ("auto", "packed", "levels")


def trie_tree(trie: Trie) -> TokenTree:
    """The prefixes of a trie as a tree: prefix i is node i - 1, the empty prefix is ROOT."""
    inner = trie.edge_tokens != trie.terminator
    parents = np.repeat(np.arange(trie.num_prefixes, dtype=np.int32), np.diff(trie.edge_offsets))
    return TokenTree(trie.edge_tokens[inner], parents[inner] - 1)


@dataclass(frozen=True)
class Prefill:
    """A prompt that the model has read.

    Attributes:
        length: Tokens of the prompt.
        cache: The model's cache after it, one row; never changed.
        state: [1, H] the hidden state behind it, or [1, V] logits (see ``TreeScorer``).
    """

    length: int
    cache: Cache
    state: torch.Tensor


class TreeScorer:
    """Scores token trees with one model in evaluation mode, with or without adapter.

    Log-probabilities are normalised over the full vocabulary in float32 whatever the
    model's dtype.

    Args:
        model: Causal language model.
        strategy: "packed", "levels", or "auto": packed where a probe finds that the
            model computes tree attention. On the embedded model (2 CPU cores, float32, a trie of
            4,230 prefixes) packed is 1.1 to 1.3 times as fast as levels, and either is about
            8 times as fast as string by string; see ``benchmarks/exact_law.py``.
        token_budget: Nodes of one packed forward pass, their ancestors included.
        max_rows: Rows of one forward pass by levels. The rows of at most one pass per
            depth are held at a time.

    Raises:
        ValueError: An unknown strategy, or "packed" for a model without tree attention.
    """

    def __init__(self, model: torch.nn.Module, strategy: str = "auto", *, token_budget: int = 256, max_rows: int = 256):
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
        packs = strategy != "levels" and supports_tree_attention(model)
        if strategy == "packed" and not packs:
            raise ValueError("this model does not support packed tree attention; use the strategy 'levels'")
        # A head that is more than one linear map is left to the model: states are then logits.
        self._logits_at = position_logits(model)
        self.strategy = "packed" if packs else "levels"
        self.token_budget, self.max_rows = token_budget, max_rows

    @torch.inference_mode()
    def prefill(self, prompt_ids: Sequence[int]) -> Prefill:
        """Run the prompt once."""
        # Without configuration every layer keeps all keys, which packed masks count on; by levels the
        # model's own kind of cache is used.
        cache = DynamicCache() if self.strategy == "packed" else None
        ids = torch.tensor([list(prompt_ids)], device=self._logits_at.device)
        states, cache = self._forward(ids, cache, last_only=True)
        return Prefill(len(prompt_ids), cache, states[:, 0])

    def score_trie(self, prompt: Prefill, trie: Trie) -> np.ndarray:
        """Log-probability of every edge of a trie given its prefix, float64[num_edges], nats."""
        return self.score_edges(prompt, trie_tree(trie), trie.edge_offsets, trie.edge_tokens)

    @torch.inference_mode()
    def score_edges(self, prompt: Prefill, tree: TokenTree, offsets: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Log-probabilities of each row's own candidates.

        Args:
            prompt: The prompt.
            tree: N nodes.
            offsets: int[N + 2]; candidates of row i are ``tokens[offsets[i]:offsets[i + 1]]``.
                Row 0 is the prompt, row i + 1 is node i.
            tokens: int[E] token ids.

        Returns:
            float64[E], nats.
        """
        out = np.empty(len(tokens))
        offsets, tokens = np.asarray(offsets, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
        for rows, states in self._states(prompt, tree):
            starts, counts = offsets[rows], offsets[rows + 1] - offsets[rows]
            asked = np.flatnonzero(counts)
            if len(asked):
                places = ranges(starts[asked], counts[asked])
                chosen = states if len(asked) == len(rows) else states[torch.from_numpy(asked).to(states.device)]
                owners = np.repeat(np.arange(len(asked)), counts[asked])
                out[places] = candidate_log_probabilities(self._logits_at, chosen, owners, tokens[places])
        return out

    def path_scorer(
        self, prompt_ids: Sequence[int], tokens: np.ndarray
    ) -> Callable[[Sequence[Sequence[int]]], np.ndarray]:
        """A function of token paths behind one prompt, which is run once.

        Args:
            prompt_ids: The encoded request.
            tokens: int[C] candidates.

        Returns:
            ``score(paths)`` -> float64[len(paths), C], log-probabilities after each path.
        """
        prompt = self.prefill(prompt_ids)

        def score(paths: Sequence[Sequence[int]]) -> np.ndarray:
            # Sorted paths put shared prefixes next to each other.
            order = sorted(range(len(paths)), key=lambda index: tuple(paths[index]))
            tree, nodes = merge_sequences([paths[index] for index in order])
            ends = np.empty(len(paths), dtype=np.int64)
            ends[order] = [rows[-1] + 1 if len(rows) else 0 for rows in nodes]
            wanted = np.zeros(len(tree) + 1, dtype=bool)
            wanted[ends] = True
            # Rows that only lead to others get no candidates, so the head is not run for them.
            offsets = np.concatenate([[0], np.cumsum(wanted * len(tokens))])
            values = self.score_edges(prompt, tree, offsets, np.tile(tokens, wanted.sum()))
            return values.reshape(-1, len(tokens))[(np.cumsum(wanted) - 1)[ends]]

        return score

    def _states(self, prompt: Prefill, tree: TokenTree) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Rows int64[n] and their states [n, ...], the prompt's row 0 first."""
        yield np.zeros(1, dtype=np.int64), prompt.state
        if len(tree):
            yield from (self._packed if self.strategy == "packed" else self._levels)(prompt, tree)

    def _packed(self, prompt: Prefill, tree: TokenTree) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        for nodes, num_known, chunk in packed_chunks(tree, self.token_budget):
            device = self._logits_at.device
            allowed = allowed_keys(prompt.length, torch.from_numpy(chunk.ancestor_mask()).to(device))
            positions = prompt.length - 1 + torch.from_numpy(chunk.depths).to(device).long()[None]
            keys = torch.cat([torch.arange(prompt.length, device=device)[None], positions], dim=1)
            mask = tree_attention_mask(self._logits_at.model, allowed[None, None], positions, keys)
            ids = torch.from_numpy(chunk.tokens).to(device).long()[None]
            states, _ = self._forward(ids, extendable(prompt.cache), positions, mask)
            yield nodes[num_known:] + 1, states[0, num_known:]

    def _levels(self, prompt: Prefill, tree: TokenTree) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        by_parent = np.argsort(tree.parents, kind="stable")
        starts = np.searchsorted(tree.parents[by_parent], np.arange(-1, len(tree) + 1))
        depths = tree.depths

        def passes(rows_of: np.ndarray, cache: Cache) -> list[tuple[Cache, np.ndarray, np.ndarray]]:
            first, counts = starts[rows_of + 1], starts[rows_of + 2] - starts[rows_of + 1]
            nodes, parent_rows = by_parent[ranges(first, counts)], np.repeat(np.arange(len(rows_of)), counts)
            cuts = range(0, len(nodes), self.max_rows)
            return [(cache, parent_rows[c : c + self.max_rows], nodes[c : c + self.max_rows]) for c in cuts]

        # Depth first over groups of rows, so that the caches alive are those of one line of descent.
        waiting = passes(np.array([ROOT]), prompt.cache)[::-1]
        while waiting:
            cache, parent_rows, nodes = waiting.pop()
            cache = select_rows(cache, torch.from_numpy(parent_rows).to(self._logits_at.device))
            ids = torch.from_numpy(tree.tokens[nodes]).to(self._logits_at.device).long()[:, None]
            positions = torch.full_like(ids, prompt.length - 1 + int(depths[nodes[0]]))
            states, cache = self._forward(ids, cache, positions)
            yield nodes + 1, states[:, 0]
            waiting.extend(passes(nodes, cache)[::-1])

    def _forward(
        self,
        ids: torch.Tensor,
        cache: Cache | None,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | dict | None = None,
        last_only: bool = False,
    ) -> tuple[torch.Tensor, Cache]:
        inputs = {"input_ids": ids, "past_key_values": cache, "use_cache": True, "attention_mask": mask}
        if positions is not None:
            inputs["position_ids"] = positions
        return self._logits_at.forward(inputs, last_only)


def packed_chunks(tree: TokenTree, token_budget: int) -> Iterator[tuple[np.ndarray, int, TokenTree]]:
    """Cut a tree into forward passes in depth-first order.

    Yields:
        Nodes int64[n] of one pass, parents before children, how many of the first are ancestors that an earlier pass
        has covered, and their tree. n exceeds the budget only where the ancestors of one node do.
    """
    order, depths, start = depth_first_order(tree), tree.depths, 0
    while start < len(order):
        num_known = int(depths[order[start]]) - 1
        stop = start + max(token_budget - num_known, 1)
        nodes, _, chunk = subtree(tree, order[start:stop])
        yield nodes, num_known, chunk
        start = stop
