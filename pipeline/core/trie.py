"""Token prefix tries as flat arrays, and the next-token targets they induce (Eq. 1).

The output space {"3", "31", "35"} with masses .5, .2, .3, one token per digit and the
terminator ``$`` gives::

    prefix 0: ()      -- 3 (1.0) --> prefix 1
    prefix 1: (3)     -- $ (0.5), 1 (0.2) --> prefix 2, 5 (0.3) --> prefix 3
    prefix 2: (3, 1)  -- $ (1.0)
    prefix 3: (3, 5)  -- $ (1.0)

Prefixes are numbered breadth first. Edges lie in one array in order of their prefix, and
ascend by token id within a prefix, so ``edge_offsets`` alone says which edges leave where.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

LEAF = -1


@dataclass(frozen=True)
class Trie:
    """A token prefix trie.

    Attributes:
        edge_offsets: int32[num_prefixes + 1]; edges of prefix i are offsets[i]:offsets[i + 1].
        edge_tokens: int32[num_edges], the next token.
        edge_probabilities: float64[num_edges], q(token | prefix); sums to 1 over each prefix.
        terminator: Token id that ends an answer; its edges lead to no prefix.
    """

    edge_offsets: np.ndarray
    edge_tokens: np.ndarray
    edge_probabilities: np.ndarray
    terminator: int

    @cached_property
    def edge_children(self) -> np.ndarray:
        """int32[num_edges], the prefix that each edge leads to, LEAF for the terminator.

        Prefixes are numbered in the order of the edges that lead to them, so this need not be stored.
        """
        inner = self.edge_tokens != self.terminator
        return np.where(inner, np.cumsum(inner, dtype=np.int32), np.int32(LEAF))

    @property
    def num_prefixes(self) -> int:
        """Number of proper prefixes (nodes with children), the empty prefix included."""
        return len(self.edge_offsets) - 1

    @property
    def num_edges(self) -> int:
        """Number of (prefix, next token) pairs."""
        return len(self.edge_tokens)

    def children(self, prefix: int) -> slice:
        """The edges that leave a prefix, by its index."""
        return slice(int(self.edge_offsets[prefix]), int(self.edge_offsets[prefix + 1]))

    def next_tokens(self, prefix_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The target distribution q(. | prefix) of Eq. 1.

        Args:
            prefix_ids: Token ids generated so far, terminator excluded.

        Returns:
            Token ids int32[K], ascending, and their probabilities float64[K].

        Raises:
            KeyError: ``prefix_ids`` is not a proper prefix of any string in the trie.
        """
        prefix = 0
        for token in prefix_ids:
            edges = self.children(prefix)
            position = edges.start + int(np.searchsorted(self.edge_tokens[edges], token))
            if position >= edges.stop or self.edge_tokens[position] != token or self.edge_children[position] == LEAF:
                raise KeyError(f"{list(prefix_ids)} is not a prefix in this trie")
            prefix = int(self.edge_children[position])
        edges = self.children(prefix)
        return self.edge_tokens[edges], self.edge_probabilities[edges]

    def sample_path(self, rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Draw a string y ~ P_Y as a walk from the root.

        Returns:
            Token ids int32[L + 1], terminator last, and ``next_tokens`` of the prefix before
            each of them.
        """
        tokens, candidates, prefix = [], [], 0
        while prefix != LEAF:
            edges = self.children(prefix)
            probabilities = self.edge_probabilities[edges]
            cumulative = np.cumsum(probabilities)
            # Scaling by the last sum keeps rounding from selecting past the last edge.
            choice = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            position = edges.start + min(choice, len(cumulative) - 1)
            candidates.append((self.edge_tokens[edges], probabilities))
            tokens.append(int(self.edge_tokens[position]))
            prefix = int(self.edge_children[position])
        return np.array(tokens, dtype=np.int32), candidates


def build_trie(sequences: Sequence[Sequence[int]], probabilities: np.ndarray, terminator: int) -> Trie:
    """Build the trie of token sequences, each followed by the terminator (Eq. 1, Algorithm 1).

    Strings of probability 0 are left out: no prefix that only they reach has a target.

    Args:
        sequences: M token id sequences, terminator excluded, pairwise distinct.
        probabilities: float64[M], sums to 1.
        terminator: Token id that ends an answer.

    Raises:
        ValueError: Two sequences are equal, or one contains the terminator.
    """
    kept = [sequence for sequence, mass in zip(sequences, probabilities, strict=True) if mass > 0]
    mass = np.asarray(probabilities, dtype=np.float64)[np.asarray(probabilities) > 0]
    lengths = np.array([len(sequence) + 1 for sequence in kept])
    tokens = np.full((len(kept), lengths.max()), -1, dtype=np.int32)
    for row, sequence in enumerate(kept):
        tokens[row, : len(sequence)] = sequence
    if (tokens == terminator).any():
        raise ValueError(f"a token sequence contains the terminator {terminator}")
    tokens[np.arange(len(kept)), lengths - 1] = terminator
    order = np.lexsort(tokens.T[::-1])
    return _from_sorted(tokens[order], lengths[order], mass[order], terminator)


def _from_sorted(tokens: np.ndarray, lengths: np.ndarray, mass: np.ndarray, terminator: int) -> Trie:
    """Tries from lexicographically sorted rows: every level is a partition into runs of rows."""
    rows, width = tokens.shape
    differs = tokens[1:] != tokens[:-1]
    if not differs.any(axis=1).all():
        raise ValueError("two canonical strings have the same token sequence")
    # Length of the prefix that a row shares with the row before it; the first row shares nothing.
    shared = np.concatenate([[-1], differs.argmax(axis=1)])
    parent_mass = np.array([mass.sum()])
    parent_of_row = np.zeros(rows, dtype=np.int64)
    num_prefixes = 1
    edge_parents, edge_tokens, edge_children, edge_probabilities = [], [], [], []
    for depth in range(1, width + 1):
        starts = np.flatnonzero(shared < depth)
        run_mass = np.add.reduceat(mass, starts)
        exists = lengths[starts] >= depth
        starts, run_mass = starts[exists], run_mass[exists]
        inner = lengths[starts] > depth
        children = np.where(inner, num_prefixes + np.cumsum(inner) - 1, LEAF)
        parents = parent_of_row[starts]
        edge_parents.append(parents)
        edge_tokens.append(tokens[starts, depth - 1])
        edge_children.append(children)
        edge_probabilities.append(run_mass / parent_mass[parents])
        run_of_row = np.cumsum(np.isin(np.arange(rows), starts)) - 1
        parent_of_row = np.where(lengths > depth, children[np.maximum(run_of_row, 0)], 0)
        parent_mass = np.concatenate([parent_mass, run_mass[inner]])
        num_prefixes += int(inner.sum())
    counts = np.bincount(np.concatenate(edge_parents), minlength=num_prefixes)
    return Trie(
        edge_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        edge_tokens=np.concatenate(edge_tokens).astype(np.int32),
        edge_probabilities=np.concatenate(edge_probabilities),
        terminator=terminator,
    )
