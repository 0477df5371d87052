"""Token sequences that share prefixes, as one row: each node attends to the prompt, its ancestors and itself only."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROOT = -1


@dataclass(frozen=True)
class TokenTree:
    """Distinct prefixes of token sequences behind a shared prompt, the root: the last token of each, int32[N], and its
    parent, ROOT or a smaller index, int32[N]."""

    tokens: np.ndarray
    parents: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> np.ndarray:
        """int32[N], 1 directly behind the prompt."""
        depths, ancestors = np.ones(len(self), dtype=np.int32), self.parents
        while (inner := ancestors != ROOT).any():
            depths += inner
            ancestors = np.where(inner, self.parents[ancestors], ROOT)
        return depths

    @property
    def is_chain(self) -> bool:
        return bool((self.parents == np.arange(len(self)) - 1).all())

    def ancestor_mask(self) -> np.ndarray:
        """bool[N, N], True where column j is row i itself or one of its ancestors."""
        mask = np.eye(len(self), dtype=bool)
        rows, ancestors = np.arange(len(self)), self.parents
        while len(rows := rows[(inner := ancestors != ROOT)]):
            ancestors = ancestors[inner]
            mask[rows, ancestors] = True
            ancestors = self.parents[ancestors]
        return mask

    def path(self, node: int) -> list[int]:
        """Token ids from the prompt to ``node``; [] for ROOT."""
        return [] if node == ROOT else [*self.path(int(self.parents[node])), int(self.tokens[node])]


def merge_sequences(sequences: Sequence[Sequence[int]]) -> tuple[TokenTree, list[np.ndarray]]:
    """The tree of all non-empty prefixes, nodes in order of first appearance, and each sequence's nodes, int64[L]."""
    index: dict[tuple[int, int], int] = {}
    nodes_of = []
    for sequence in sequences:
        node, nodes = ROOT, []
        for token in sequence:
            node = index.setdefault((node, int(token)), len(index))
            nodes.append(node)
        nodes_of.append(np.array(nodes, dtype=np.int64))
    edges = np.array(list(index), dtype=np.int32).reshape(-1, 2)
    return TokenTree(edges[:, 1].copy(), edges[:, 0].copy()), nodes_of
