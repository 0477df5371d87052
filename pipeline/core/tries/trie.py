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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.tries.digit_tokens import PAST, DigitTokens

LEAF = -1


class NextTokenTargets(Protocol):
    """What training and scoring ask of a trie, explicit or implicit."""

    def next_tokens(self, prefix_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Token ids int32[K], ascending, and q(. | prefix) float64[K]."""

    def sample_paths(
        self, rng: np.random.Generator, size: int
    ) -> list[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]:
        """Sampled strings with the targets at each of their prefixes."""


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
        """int32[num_edges], the prefix that each edge leads to, LEAF for the terminator: prefixes are numbered in the
        order of the edges that lead to them.
        """
        inner = self.edge_tokens != self.terminator
        return np.where(inner, np.cumsum(inner, dtype=np.int32), np.int32(LEAF))

    @property
    def num_prefixes(self) -> int:
        """Proper prefixes (nodes with children), the empty one included."""
        return len(self.edge_offsets) - 1

    @property
    def num_edges(self) -> int:
        """Number of (prefix, next token) pairs."""
        return len(self.edge_tokens)

    def children(self, prefix: int) -> slice:
        """The edges that leave a prefix, by its index."""
        return slice(int(self.edge_offsets[prefix]), int(self.edge_offsets[prefix + 1]))

    def next_tokens(self, prefix_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """q(. | prefix) of Eq. 1: token ids int32[K], ascending, and their probabilities float64[K].

        Raises KeyError where ``prefix_ids``, without the terminator, are not a proper prefix of any string in the trie.
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
        """A string y ~ P_Y as a walk from the root: token ids int32[L + 1], terminator last, and ``next_tokens`` before
        each.
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

    def sample_paths(
        self, rng: np.random.Generator, size: int
    ) -> list[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]:
        """``size`` results of ``sample_path``."""
        return [self.sample_path(rng) for _ in range(size)]


def build_trie(sequences: Sequence[Sequence[int]], probabilities: np.ndarray, terminator: int) -> Trie:
    """Build the trie of distinct token sequences, each followed by the terminator (Eq. 1, Algorithm 1).

    Strings of probability 0 are left out: no prefix that only they reach has a target. Raises ValueError where two
    sequences are equal, or one contains the terminator.
    """
    tokens = np.full((len(sequences), 1 + max(map(len, sequences))), PAST, dtype=np.int32)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = sequence
        row[len(sequence)] = terminator
    if (tokens == terminator).sum() > len(sequences):
        raise ValueError(f"a token sequence contains the terminator {terminator}")
    return _build(tokens, np.asarray(probabilities, dtype=np.float64), terminator)


def build_tries(spaces: Iterable[OutputSpace], tokens: DigitTokens) -> Iterator[Trie]:
    """Tries of output spaces of ``FixedPointStrings`` under a verified digit rule, in order, without making strings."""
    for space in spaces:
        yield _build(tokens.encode_numbers(space.values), space.probabilities, tokens.terminator)


def _build(tokens: np.ndarray, mass: np.ndarray, terminator: int) -> Trie:
    """The trie of int32[M, L] sequences: among sorted ones, every prefix is a run of rows."""
    tokens, mass = tokens[mass > 0], mass[mass > 0]
    order = np.lexsort(tokens.T[::-1])
    tokens, mass = tokens[order], mass[order]
    # new[r]: row r differs from the row before it within the tokens seen so far.
    new = np.arange(len(mass)) == 0
    levels = []
    for column in tokens.T:
        opens_prefix, new = new, new | (np.diff(column, prepend=column[0]) != 0)
        starts = np.flatnonzero(new)
        exists = column[starts] != PAST
        if not exists.any():
            break
        run_mass, starts = np.add.reduceat(mass, starts)[exists], starts[exists]
        first = np.flatnonzero(opens_prefix[starts])
        of_prefix = np.repeat(np.add.reduceat(run_mass, first), np.diff(np.append(first, len(starts))))
        levels.append((column[starts], run_mass / of_prefix, opens_prefix[starts]))
    if not new.all():
        raise ValueError("two canonical strings have the same token sequence")
    edge_tokens, probabilities, first_edges = (np.concatenate(part) for part in zip(*levels, strict=True))
    offsets = np.append(np.flatnonzero(first_edges), len(edge_tokens)).astype(np.int32)
    return Trie(offsets, edge_tokens, probabilities, terminator)
