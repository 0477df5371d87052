"""Token prefix tries as flat arrays, and the next-token targets they induce (Eq. 1).

The output space {"3", "31", "35"} with masses .5, .2, .3, one token per digit and the terminator ``$`` gives::

    prefix 0: ()      -- 3 (1.0) --> prefix 1
    prefix 1: (3)     -- $ (0.5), 1 (0.2) --> prefix 2, 5 (0.3) --> prefix 3
    prefix 2: (3, 1)  -- $ (1.0)
    prefix 3: (3, 5)  -- $ (1.0)

Prefixes are numbered breadth first. Edges lie in one array in order of their prefix, and ascend by token id within it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.number_keys import PackedSequences, pack_numbers, pack_sequences

LEAF = -1
# Strings per pass of ``build_tries``: keys and temporaries stay in the processor's cache.
STRINGS_PER_PASS = 1 << 15


@dataclass(frozen=True)
class Trie:
    """A token prefix trie: the edges of prefix i are int32[num_prefixes + 1] offsets[i]:offsets[i + 1], with int32 next
    tokens and float64 q(token | prefix). Edges of the terminator, which ends an answer, lead to no prefix."""

    edge_offsets: np.ndarray
    edge_tokens: np.ndarray
    edge_probabilities: np.ndarray
    terminator: int

    @cached_property
    def edge_children(self) -> np.ndarray:
        """int32[num_edges], the prefix that each edge leads to, numbered in the order of the edges; LEAF at an end."""
        inner = self.edge_tokens != self.terminator
        return np.where(inner, np.cumsum(inner, dtype=np.int32), np.int32(LEAF))

    @property
    def num_prefixes(self) -> int:
        """Proper prefixes (nodes with children), the empty one included."""
        return len(self.edge_offsets) - 1

    @property
    def num_edges(self) -> int:
        return len(self.edge_tokens)

    def children(self, prefix: int) -> slice:
        return slice(int(self.edge_offsets[prefix]), int(self.edge_offsets[prefix + 1]))

    def next_tokens(self, prefix_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """q(. | prefix) of Eq. 1: int32[K] token ids, ascending, and float64[K]. Raises KeyError where ``prefix_ids``,
        without the terminator, are not a proper prefix of any string in the trie."""
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
        """A string y ~ P_Y: token ids int32[L + 1], terminator last, and ``next_tokens`` before each."""
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
        return [self.sample_path(rng) for _ in range(size)]


def trie_levels(trie: Trie) -> Iterator[slice]:
    """The edges that leave the prefixes of each depth."""
    first, last = 0, 1
    while first < last:
        edges = slice(int(trie.edge_offsets[first]), int(trie.edge_offsets[last]))
        yield edges
        first, last = last, last + int((trie.edge_children[edges] != LEAF).sum())


def edge_parents(trie: Trie) -> np.ndarray:
    """int64[num_edges], the prefix that each edge leaves."""
    return np.repeat(np.arange(trie.num_prefixes), np.diff(trie.edge_offsets))


def build_trie(sequences: Sequence[Sequence[int]], probabilities: np.ndarray, terminator: int) -> Trie:
    """The trie of distinct token sequences, each followed by the terminator (Eq. 1, Algorithm 1), without strings of
    probability 0. Raises ValueError where two sequences are equal, or one contains the terminator."""
    mass = np.asarray(probabilities, dtype=np.float64)
    kept = [sequence for sequence, probability in zip(sequences, mass, strict=True) if probability > 0]
    packed = pack_sequences(kept, terminator)
    return next(_tries_of(packed, mass[mass > 0], np.array([len(kept)]), terminator))


def build_tries(spaces: Sequence[OutputSpace], tokens: DigitTokens) -> Iterator[Trie]:
    """Tries of output spaces of ``FixedPointStrings`` under a verified digit rule, in order, many strings per pass."""
    start = 0
    while start < len(spaces):
        stop, total = start, 0
        while stop < len(spaces) and (stop == start or total + len(spaces[stop].values) <= STRINGS_PER_PASS):
            total += len(spaces[stop].values)
            stop += 1
        part, start = spaces[start:stop], stop
        packed = pack_numbers([space.values for space in part], tokens)
        mass = np.concatenate([space.probabilities for space in part])
        sizes = np.array([len(space.values) for space in part])
        if not (kept := mass > 0).all():
            sizes = np.add.reduceat(kept, np.cumsum(sizes) - sizes)
            packed, mass = packed.take(kept), mass[kept]
        yield from _tries_of(packed, mass, sizes, tokens.terminator)


def _tries_of(packed: PackedSequences, mass: np.ndarray, sizes: np.ndarray, terminator: int) -> Iterator[Trie]:
    """Tries of consecutive groups of sequences; every level of all of them is one partition into runs of rows."""
    row_ends = np.cumsum(sizes)
    order = np.empty(len(mass), dtype=np.int64)
    for stop, size in zip(row_ends.tolist(), sizes.tolist(), strict=True):
        rows = slice(stop - size, stop)
        keys = [word[rows] for word in packed.words]
        order[rows] = (np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])) + rows.start
    packed, mass = packed.take(order), mass[order]
    differs = [np.concatenate([[np.uint64(0)], word[1:] ^ word[:-1]]) for word in packed.words]
    # new[r]: row r differs from the row before it within the tokens seen so far, or starts a space.
    new = np.zeros(len(mass), dtype=bool)
    new[row_ends - sizes] = True
    levels = []
    for position in range(packed.length):
        word, shift = packed.place(position)
        was_new = new
        new = new | (differs[word] >> shift != 0)
        starts = np.flatnonzero(new)
        ranks = packed.ranks(position)[starts]
        run_mass = np.add.reduceat(mass, starts)
        exists = ranks > 0
        starts, run_mass = starts[exists], run_mass[exists]
        first = np.flatnonzero(was_new[starts])
        parent_mass = np.add.reduceat(run_mass, first) if len(first) else run_mass[:0]
        probabilities = run_mass / np.repeat(parent_mass, np.diff(np.append(first, len(starts))))
        levels.append((packed.token_of_rank[ranks[exists]], probabilities, was_new[starts], starts))
    if not new.all():
        raise ValueError("two canonical strings have the same token sequence")
    yield from _split_by_space(levels, row_ends, terminator)


def _split_by_space(levels: list[tuple], row_ends: np.ndarray, terminator: int) -> Iterator[Trie]:
    """Reorder edges from (level, space) to (space, level), which numbers the prefixes of each trie breadth first."""
    bounds = np.array([np.searchsorted(starts, row_ends) for *_, starts in levels])
    counts = np.diff(bounds, axis=1, prepend=0)
    ends = np.cumsum(counts.T.ravel()).reshape(len(row_ends), len(levels)).T
    total = int(ends[-1, -1])
    tokens, probabilities = np.empty(total, dtype=np.int32), np.empty(total)
    first_children = np.empty(total, dtype=bool)
    for level, (level_tokens, level_probabilities, first, _) in enumerate(levels):
        target = np.arange(len(level_tokens)) + np.repeat(ends[level] - bounds[level], counts[level])
        tokens[target], probabilities[target], first_children[target] = level_tokens, level_probabilities, first
    start = 0
    for stop in ends[-1].tolist():
        offsets = np.append(np.flatnonzero(first_children[start:stop]), stop - start).astype(np.int32)
        yield Trie(offsets, tokens[start:stop].copy(), probabilities[start:stop].copy(), terminator)
        start = stop
