"""Digit rules made by hand, and the strings of a trie."""

import numpy as np
import pytest

from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import LEAF, Trie, edge_parents

END = 2


def digit_tokens(max_group: int) -> DigitTokens:
    """A rule whose token ids are shuffled, so that nothing depends on ids ascending with digits."""
    rng = np.random.default_rng(max_group)
    ids = rng.permutation(np.arange(3, 1200))
    groups, used = [], 2
    for size in range(1, max_group + 1):
        groups.append(ids[used : used + 10**size].astype(np.int32))
        used += 10**size
    return DigitTokens(tuple(groups), int(ids[0]), int(ids[1]), END)


@pytest.fixture(params=[1, 2, 3], ids=lambda size: f"groups of {size}")
def rule(request) -> DigitTokens:
    return digit_tokens(request.param)


def leaf_sequences(trie: Trie) -> list[list[int]]:
    """Token ids of each string, terminator excluded, in the order of ``trie_law``."""
    parents = edge_parents(trie)
    incoming = np.concatenate([[-1], np.flatnonzero(trie.edge_children != LEAF)])
    sequences = []
    for prefix in parents[trie.edge_children == LEAF].tolist():
        tokens: list[int] = []
        while prefix:
            edge = int(incoming[prefix])
            tokens.append(int(trie.edge_tokens[edge]))
            prefix = int(parents[edge])
        sequences.append(tokens[::-1])
    return sequences
