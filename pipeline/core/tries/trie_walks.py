"""Level by level over a trie: masses and weights of its prefixes."""

from collections.abc import Iterator

import numpy as np

from pipeline.core.tries.trie import LEAF, Trie


def trie_levels(trie: Trie) -> Iterator[tuple[slice, slice]]:
    """Prefixes of each depth and the edges that leave them, from the root downwards."""
    first, last = 0, 1
    while first < last:
        edges = slice(int(trie.edge_offsets[first]), int(trie.edge_offsets[last]))
        yield slice(first, last), edges
        first, last = last, last + int((trie.edge_children[edges] != LEAF).sum())


def edge_parents(trie: Trie) -> np.ndarray:
    """int64[num_edges], the prefix that each edge leaves."""
    return np.repeat(np.arange(trie.num_prefixes), np.diff(trie.edge_offsets))


def prefix_probabilities(trie: Trie) -> np.ndarray:
    """float64[num_prefixes], the target's probability of passing through each prefix."""
    mass = np.ones(trie.num_prefixes)
    parents = edge_parents(trie)
    for _, edges in trie_levels(trie):
        inner = np.flatnonzero(trie.edge_children[edges] != LEAF) + edges.start
        mass[trie.edge_children[inner]] = mass[parents[inner]] * trie.edge_probabilities[inner]
    return mass


def path_prefix_weights(trie: Trie) -> np.ndarray:
    """float64[num_prefixes], weights w(s) of the prefixes in Eq. 3: sum over y through s of P(y) / (L(y) + 1); they sum
    to 1.
    """
    edge_mass = prefix_probabilities(trie)[edge_parents(trie)] * trie.edge_probabilities
    weights = np.empty(trie.num_prefixes)
    levels = list(trie_levels(trie))
    for depth in range(len(levels) - 1, -1, -1):
        prefixes, edges = levels[depth]
        # A string that ends behind a prefix of d tokens has L = d.
        through = edge_mass[edges] / (depth + 1)
        children = trie.edge_children[edges]
        inner = children != LEAF
        through[inner] = weights[children[inner]]
        weights[prefixes] = np.add.reduceat(through, trie.edge_offsets[prefixes] - edges.start)
    return weights
