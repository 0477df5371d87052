"""A model's law over the strings of a trie, in the order of their last edges, from its edge log-probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pipeline.core.tries.trie import LEAF, Trie, edge_parents, trie_levels


def leaf_index(trie: Trie, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """int64[len(sequences)], places among the trie's strings of token sequences (terminator excluded); -1 for one that
    the trie does not hold, such as a canonical string of probability 0."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    tokens = np.full((len(sequences), int(lengths.max(initial=0)) + 1), trie.terminator, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    # Edges are sorted by prefix and by token within it, so one search per level finds all next edges.
    stride = int(max(trie.edge_tokens.max(initial=0), tokens.max(initial=0))) + 1
    keys = edge_parents(trie) * stride + trie.edge_tokens
    leaf_number = np.cumsum(trie.edge_children == LEAF) - 1
    places = np.full(len(sequences), -1, dtype=np.int64)
    rows, prefixes = np.arange(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
    for depth in range(tokens.shape[1]):
        wanted = prefixes * stride + tokens[rows, depth]
        edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = keys[edges] == wanted
        rows, edges = rows[hit], edges[hit]
        ends = trie.edge_children[edges] == LEAF
        # A terminator inside a sequence would end it early.
        complete = ends & (lengths[rows] == depth)
        places[rows[complete]] = leaf_number[edges[complete]]
        rows, prefixes = rows[~ends], trie.edge_children[edges[~ends]].astype(np.int64)
    return places


def string_log_probabilities(trie: Trie, edge_log_probabilities: np.ndarray) -> np.ndarray:
    """float64[M], log-probability of each string: the sum over its path of float64[num_edges] log p(token | prefix)."""
    total = np.asarray(edge_log_probabilities, dtype=np.float64).copy()
    parents, before = edge_parents(trie), np.zeros(trie.num_prefixes)
    for edges in trie_levels(trie):
        total[edges] += before[parents[edges]]
        inner = np.flatnonzero(trie.edge_children[edges] != LEAF) + edges.start
        before[trie.edge_children[inner]] = total[inner]
    return total[trie.edge_children == LEAF]


@dataclass(frozen=True)
class ExactLaw:
    """Model against target over the M strings of a trie: the model's log-probabilities float64[M] in nats, its
    probability of none of them, and W1 of the law conditional on the trie, in the values' unit; NaN without values."""

    log_probabilities: np.ndarray
    mass_off_trie: float
    wasserstein_1: float


def exact_law(trie: Trie, edge_log_probabilities: np.ndarray, values: np.ndarray | None = None) -> ExactLaw:
    """From the model's log-probabilities of edges, float64[num_edges] in nats over its full vocabulary, and the number
    of each string, float64[M]."""
    log_model = string_log_probabilities(trie, edge_log_probabilities)
    log_mass, distance = float(logsumexp(log_model)), math.nan
    if values is not None:
        target = np.exp(string_log_probabilities(trie, np.log(trie.edge_probabilities)))
        order = np.argsort(values, kind="stable")
        gap = np.cumsum((np.exp(log_model - log_mass) - target)[order])[:-1]
        distance = float(np.abs(gap) @ np.diff(np.asarray(values)[order]))
    # Rounded log-probabilities may sum to a little more than 1.
    return ExactLaw(log_model, max(0.0, -math.expm1(log_mass)), distance)
