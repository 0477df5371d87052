"""Constrained decoding: after every prefix the model's law is restricted to the tokens with which the trie goes on."""

import torch

from pipeline.core.tries.trie import Trie


class TrieConstraint:
    """Which tokens may follow a prefix, by its index in the trie (0 for the empty one)."""

    def __init__(self, trie: Trie, device: torch.device | str):
        arrays = (trie.edge_offsets, trie.edge_tokens, trie.edge_children)
        self._offsets, self._tokens, self._children = (torch.from_numpy(a.astype("int64")).to(device) for a in arrays)
        parents = torch.repeat_interleave(torch.arange(trie.num_prefixes, device=device), self._offsets.diff())
        self._span = int(self._tokens.max()) + 1
        # Edges are sorted by prefix, then token.
        self._keys = parents * self._span + self._tokens

    def restrict(self, logits: torch.Tensor, prefixes: torch.Tensor) -> torch.Tensor:
        """A copy of float[R, V] logits with -inf on every token that does not follow its row's prefix, int64[R]."""
        starts, counts = self._offsets[prefixes], self._offsets[prefixes + 1] - self._offsets[prefixes]
        rows = torch.repeat_interleave(torch.arange(len(prefixes), device=logits.device), counts)
        first = torch.repeat_interleave(starts - (counts.cumsum(0) - counts), counts)
        tokens = self._tokens[first + torch.arange(len(rows), device=logits.device)]
        restricted = torch.full_like(logits, -torch.inf)
        restricted[rows, tokens] = logits[rows, tokens]
        return restricted

    def advance(self, prefixes: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The prefixes, int64[n], one allowed token later; negative behind the terminator."""
        return self._children[torch.searchsorted(self._keys, prefixes * self._span + tokens)]
