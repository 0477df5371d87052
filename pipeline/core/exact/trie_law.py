"""A model's law over the strings of a trie, computed from its edge log-probabilities without sampling.

With P the target over strings y, p the model's law over token sequences ending in the terminator, q(. | s) the target's
next token after prefix s (Eq. 1 of arXiv:2605.11845) and P(s) the target's probability of passing through s,

    KL(P || p) = sum_y P(y) log(P(y) / p(y)) = sum_s P(s) KL(q(. | s) || p(. | s)).

Strings are counted in the order of their last edges (``leaf_edges``): shorter ones first, by token ids among equals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pipeline.core.tries.trie import LEAF, Trie, edge_parents, prefix_probabilities, trie_levels


def leaf_edges(trie: Trie) -> np.ndarray:
    """int64[M], the edge that ends each string; this is the order of strings in this module."""
    return np.flatnonzero(trie.edge_children == LEAF)


def leaf_index(trie: Trie, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """int64[len(sequences)], places of token sequences (terminator excluded) in the order of ``leaf_edges``; -1 for one
    that the trie does not hold, such as a canonical string of probability 0."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    tokens = np.full((len(sequences), int(lengths.max(initial=0)) + 1), trie.terminator, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    # Edges are sorted by prefix and by token within it, so one search per level finds all next edges.
    stride = int(max(trie.edge_tokens.max(initial=0), tokens.max(initial=0))) + 1
    keys = edge_parents(trie) * stride + trie.edge_tokens
    leaf_number = np.cumsum(trie.edge_children == LEAF) - 1
    found = np.full(len(sequences), -1, dtype=np.int64)
    rows, prefixes = np.arange(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
    for depth in range(tokens.shape[1]):
        wanted = prefixes * stride + tokens[rows, depth]
        edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = keys[edges] == wanted
        rows, edges = rows[hit], edges[hit]
        ends = trie.edge_children[edges] == LEAF
        # A terminator inside a sequence would end it early.
        complete = ends & (lengths[rows] == depth)
        found[rows[complete]] = leaf_number[edges[complete]]
        rows, prefixes = rows[~ends], trie.edge_children[edges[~ends]].astype(np.int64)
    return found


def string_log_probabilities(trie: Trie, edge_log_probabilities: np.ndarray) -> np.ndarray:
    """float64[M], log-probability of each string: the sum over its path of float64[num_edges] log p(token | prefix)."""
    total = np.asarray(edge_log_probabilities, dtype=np.float64).copy()
    parents = edge_parents(trie)
    before = np.zeros(trie.num_prefixes)
    for _, edges in trie_levels(trie):
        total[edges] += before[parents[edges]]
        inner = np.flatnonzero(trie.edge_children[edges] != LEAF) + edges.start
        before[trie.edge_children[inner]] = total[inner]
    return total[leaf_edges(trie)]


@dataclass(frozen=True)
class ExactLaw:
    """Model against target over the strings of one trie; divergences in nats.

    Attributes:
        log_probabilities: float64[M], the model's log-probability of each string.
        mass_on_trie: Model's probability of producing one of the strings; ``mass_off_trie`` is the rest.
        sequence_kl: KL(P || p) over strings.
        total_variation: Between P and p, the mass off the trie included.
        wasserstein_1: W1 of the law conditional on the trie, in the values' own unit; NaN without values.
    """

    log_probabilities: np.ndarray
    mass_on_trie: float
    mass_off_trie: float
    sequence_kl: float
    total_variation: float
    wasserstein_1: float = math.nan


def exact_law(trie: Trie, edge_log_probabilities: np.ndarray, values: np.ndarray | None = None) -> ExactLaw:
    """What the model's edge log-probabilities, float64[num_edges] in nats over its full vocabulary, determine.

    ``values`` are float64[M], the number of each string in the order of ``leaf_edges``.
    """
    q = trie.edge_probabilities
    divergences = np.add.reduceat(q * (np.log(q) - edge_log_probabilities), trie.edge_offsets[:-1])
    log_model = string_log_probabilities(trie, edge_log_probabilities)
    target = np.exp(string_log_probabilities(trie, np.log(q)))
    log_mass = float(logsumexp(log_model))
    # Rounded log-probabilities may sum to a little more than 1.
    off = max(0.0, -math.expm1(log_mass))
    distance = math.nan
    if values is not None:
        order = np.argsort(values, kind="stable")
        gap = np.cumsum((np.exp(log_model - log_mass) - target)[order])[:-1]
        distance = float(np.abs(gap) @ np.diff(np.asarray(values)[order]))
    return ExactLaw(
        log_probabilities=log_model,
        mass_on_trie=math.exp(min(0.0, log_mass)),
        mass_off_trie=off,
        sequence_kl=float(prefix_probabilities(trie) @ divergences),
        total_variation=0.5 * (float(np.abs(target - np.exp(log_model)).sum()) + off),
        wasserstein_1=distance,
    )
