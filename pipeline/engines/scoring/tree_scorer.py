"""A model's log-probabilities after every prefix of a token tree, behind one prompt whose cache is shared."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import DynamicCache

from pipeline.core.training.batches import depth_first_order, subtree
from pipeline.core.tries.token_tree import TokenTree, merge_sequences
from pipeline.core.tries.trie import Trie
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import candidate_log_probabilities, ranges
from pipeline.engines.scoring.tree_attention import allowed_keys, supports_tree_attention, tree_attention_mask
from pipeline.errors import ModelError


def trie_tree(trie: Trie) -> TokenTree:
    """The prefixes of a trie as a tree: prefix i is node i - 1, the empty prefix is ROOT."""
    inner = trie.edge_tokens != trie.terminator
    parents = np.repeat(np.arange(trie.num_prefixes, dtype=np.int32), np.diff(trie.edge_offsets))
    return TokenTree(trie.edge_tokens[inner], parents[inner] - 1)


class Prefill(NamedTuple):
    """A prompt of ``length`` tokens that the model has read: its cache, never changed, and the state behind it."""

    length: int
    cache: DynamicCache
    state: torch.Tensor


class TreeScorer:
    """Scores token trees with one model in evaluation mode, with or without adapter.

    ``token_budget``: nodes of one forward pass, with their ancestors. Raises ModelError without tree attention.
    """

    def __init__(self, model: torch.nn.Module, token_budget: int = 256):
        if not supports_tree_attention(model):
            raise ModelError("this model's attention takes no masks for token trees; `attention: sdpa` or eager may")
        self._logits_at, self.token_budget = position_logits(model), token_budget

    @torch.inference_mode()
    def prefill(self, prompt_ids: Sequence[int]) -> Prefill:
        """Run the prompt once."""
        # Without configuration every layer keeps all keys, which the masks count on.
        inputs = {"input_ids": torch.tensor([list(prompt_ids)], device=self._logits_at.device)}
        inputs |= {"past_key_values": DynamicCache(), "use_cache": True}
        states, cache = self._logits_at.forward(inputs, last_only=True)
        return Prefill(len(prompt_ids), cache, states[:, 0])

    def score_trie(self, prompt: Prefill, trie: Trie) -> np.ndarray:
        """Log-probability of every edge of a trie given its prefix, float64[num_edges], nats."""
        return self.score_edges(prompt, trie_tree(trie), trie.edge_offsets, trie.edge_tokens)

    @torch.inference_mode()
    def score_edges(self, prompt: Prefill, tree: TokenTree, offsets: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Log-probabilities of each row's own candidates, float64[E], nats.

        Row 0 is the prompt, row i + 1 is node i of the tree's N; candidates of row i are
        ``tokens[offsets[i]:offsets[i + 1]]``, with int[N + 2] offsets and int[E] tokens.
        """
        out = np.empty(len(tokens))
        offsets, tokens = np.asarray(offsets, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
        for rows, states in self._states(prompt, tree):
            starts, counts = offsets[rows], offsets[rows + 1] - offsets[rows]
            # Only states of prefixes that something is asked of reach the output head.
            asked = np.flatnonzero(counts)
            if len(asked):
                places = ranges(starts[asked], counts[asked])
                chosen = states if len(asked) == len(rows) else states[torch.from_numpy(asked).to(states.device)]
                owners = np.repeat(np.arange(len(asked)), counts[asked])
                out[places] = candidate_log_probabilities(self._logits_at, chosen, owners, tokens[places])
        return out

    def score_nodes(self, prompt: Prefill, tree: TokenTree, nodes: np.ndarray) -> np.ndarray:
        """Log-probabilities of the tokens of some nodes int64[n] behind their parents: float64[N], nats, else NaN."""
        values, ordered = np.full(len(tree), np.nan), nodes[np.argsort(tree.parents[nodes], kind="stable")]
        counts = np.bincount(tree.parents[ordered] + 1, minlength=len(tree) + 1)
        values[ordered] = self.score_edges(prompt, tree, np.concatenate([[0], np.cumsum(counts)]), tree.tokens[ordered])
        return values

    def path_scorer(
        self, prompt_ids: Sequence[int], tokens: np.ndarray
    ) -> Callable[[Sequence[Sequence[int]]], np.ndarray]:
        """A function from paths behind one prompt, which is run once, to float64[len(paths), C] log-probabilities of
        the int[C] candidates ``tokens`` after each path."""
        prompt = self.prefill(prompt_ids)

        def score(paths: Sequence[Sequence[int]]) -> np.ndarray:
            # Sorted paths put shared prefixes next to each other.
            order = sorted(range(len(paths)), key=lambda index: tuple(paths[index]))
            tree, nodes = merge_sequences([paths[index] for index in order])
            ends = np.empty(len(paths), dtype=np.int64)
            ends[order] = [rows[-1] + 1 if len(rows) else 0 for rows in nodes]
            wanted = np.zeros(len(tree) + 1, dtype=bool)
            wanted[ends] = True
            offsets = np.concatenate([[0], np.cumsum(wanted * len(tokens))])
            values = self.score_edges(prompt, tree, offsets, np.tile(tokens, wanted.sum()))
            return values.reshape(-1, len(tokens))[(np.cumsum(wanted) - 1)[ends]]

        return score

    def _states(self, prompt: Prefill, tree: TokenTree) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Rows int64[n] and their states [n, ...], the prompt's row 0 first."""
        yield np.zeros(1, dtype=np.int64), prompt.state
        device = self._logits_at.device
        for nodes, num_known, chunk in packed_chunks(tree, self.token_budget):
            allowed = allowed_keys(prompt.length, torch.from_numpy(chunk.ancestor_mask()).to(device))
            positions = prompt.length - 1 + torch.from_numpy(chunk.depths).to(device).long()[None]
            keys = torch.cat([torch.arange(prompt.length, device=device)[None], positions], dim=1)
            # Its layers replace their tensors and never write into them, so the copies may share them at first.
            cache = copy.copy(prompt.cache)
            cache.layers = [copy.copy(layer) for layer in cache.layers]
            inputs = {
                "input_ids": torch.from_numpy(chunk.tokens).to(device).long()[None],
                "past_key_values": cache,
                "use_cache": True,
                "attention_mask": tree_attention_mask(self._logits_at.model, allowed[None, None], positions, keys),
                "position_ids": positions,
            }
            states, _ = self._logits_at.forward(inputs)
            yield nodes[num_known:] + 1, states[0, num_known:]


def packed_chunks(tree: TokenTree, token_budget: int) -> Iterator[tuple[np.ndarray, int, TokenTree]]:
    """Cut a tree into forward passes in depth-first order.

    Yields the nodes int64[n] of one pass, parents before children, how many of the first are ancestors that an earlier
    pass has covered, and their tree. n exceeds the budget only where the ancestors of one node do.
    """
    order, depths, start = depth_first_order(tree), tree.depths, 0
    while start < len(order):
        num_known = int(depths[order[start]]) - 1
        stop = start + max(token_budget - num_known, 1)
        nodes, _, chunk = subtree(tree, order[start:stop])
        yield nodes, num_known, chunk
        start = stop
