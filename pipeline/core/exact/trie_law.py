"""A model's law over the strings of a trie, computed from its edge log-probabilities without sampling.

With P the target over strings y, p the model's law over token sequences ending in the
terminator, q(. | s) the target's next token after prefix s (Eq. 1 of arXiv:2605.11845) and
P(s) the target's probability of passing through s, the chain rule gives

    KL(P || p) = sum_y P(y) log(P(y) / p(y)) = sum_s P(s) KL(q(. | s) || p(. | s)),

while Eq. 3 averages over the L(y) + 1 prefixes of each string before it averages over strings:

    E_y [1 / (L(y) + 1) sum_{s prefix of y} KL(q(. | s) || p(. | s))] = sum_s w(s) KL(q(. | s) || p(. | s)),
    w(s) = sum_{y through s} P(y) / (L(y) + 1).

Strings are counted in the order of their last edges (``leaf_edges``): shorter ones first,
by token ids among equals. Values that are not in the trie have target mass 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pipeline.core.tries.trie import LEAF, Trie
from pipeline.core.tries.trie_walks import edge_parents, path_prefix_weights, prefix_probabilities, trie_levels


def leaf_edges(trie: Trie) -> np.ndarray:
    """int64[M], the edge that ends each string; this is the order of strings in this module."""
    return np.flatnonzero(trie.edge_children == LEAF)


def leaf_sequences(trie: Trie) -> list[list[int]]:
    """Token ids of each string, terminator excluded, in the order of ``leaf_edges``."""
    parents = edge_parents(trie)
    incoming = np.concatenate([[-1], np.flatnonzero(trie.edge_children != LEAF)])
    sequences = []
    for prefix in parents[leaf_edges(trie)].tolist():
        tokens: list[int] = []
        while prefix:
            edge = int(incoming[prefix])
            tokens.append(int(trie.edge_tokens[edge]))
            prefix = int(parents[edge])
        sequences.append(tokens[::-1])
    return sequences


def leaf_index(trie: Trie, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """int64[len(sequences)], where in the order of ``leaf_edges`` each token sequence (terminator excluded) is.

    -1 for one that the trie does not hold, such as a canonical string of probability 0.
    """
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
    """float64[M], log-probability of each string, terminator included, in the order of ``leaf_edges``.

    The sum over its path of float64[num_edges] log p(token | prefix), of any law.
    """
    total = np.asarray(edge_log_probabilities, dtype=np.float64).copy()
    parents = edge_parents(trie)
    before = np.zeros(trie.num_prefixes)
    for _, edges in trie_levels(trie):
        total[edges] += before[parents[edges]]
        inner = np.flatnonzero(trie.edge_children[edges] != LEAF) + edges.start
        before[trie.edge_children[inner]] = total[inner]
    return total[leaf_edges(trie)]


@dataclass(frozen=True)
class GridDistances:
    """Distances of the model's law from the target on the values of the strings.

    Attributes:
        wasserstein_1: W1 of the law conditional on the trie, in the values' own unit; ``ks`` likewise.
        ks_low: Least KS distance that the model's law can have if its mass off the trie
            may be any numbers, or no numbers (the law is then conditional on the rest).
        ks_high: Largest such distance; both ends are attained.
    """

    wasserstein_1: float
    ks: float
    ks_low: float
    ks_high: float


@dataclass(frozen=True)
class ExactLaw:
    """Model against target over the strings of one trie; divergences in nats.

    Attributes:
        log_probabilities: float64[M], the model's log-probability of each string.
        prefix_divergences: float64[num_prefixes], KL(q || p) at each prefix; p is normalised over its full vocabulary.
        mass_on_trie: Model's probability of producing one of the strings; also the least
            possible valid rate, the largest being 1. ``mass_off_trie`` is the rest.
        sequence_kl: KL(P || p) over strings.
        mean_prefix_kl: The expectation of Eq. 3 over y ~ P.
        total_variation: Between P and p, the mass off the trie included.
        constrained_total_variation: Between P and the law of constrained decoding.
        constrained_wasserstein_1: Of that law, in the values' own unit; NaN without values.
        grid: Distances on the number line; None without values.
    """

    log_probabilities: np.ndarray
    prefix_divergences: np.ndarray
    mass_on_trie: float
    mass_off_trie: float
    sequence_kl: float
    mean_prefix_kl: float
    total_variation: float
    constrained_total_variation: float
    constrained_wasserstein_1: float = math.nan
    grid: GridDistances | None = None


def constrained_log_probabilities(trie: Trie, edge_log_probabilities: np.ndarray) -> np.ndarray:
    """float64[M], log-probability of each string where every step is restricted to the trie and normalised again.

    The law of constrained decoding (``pipeline.core.tries.constraint``). It sums to 1 over the strings, and is not
    the model's law given that the string is in the trie.
    """
    starts = trie.edge_offsets[:-1]
    # Scaled by the largest of each prefix, whose tokens may all be improbable.
    largest = np.repeat(np.maximum.reduceat(edge_log_probabilities, starts), np.diff(trie.edge_offsets))
    scaled = np.exp(edge_log_probabilities - largest)
    totals = np.repeat(np.add.reduceat(scaled, starts), np.diff(trie.edge_offsets))
    return string_log_probabilities(trie, edge_log_probabilities - largest - np.log(totals))


def exact_law(trie: Trie, edge_log_probabilities: np.ndarray, values: np.ndarray | None = None) -> ExactLaw:
    """Everything about the model on the trie that its edge log-probabilities, float64[num_edges] in nats, determine.

    ``values`` are float64[M], the number of each string in the order of ``leaf_edges``.
    """
    q = trie.edge_probabilities
    divergences = np.add.reduceat(q * (np.log(q) - edge_log_probabilities), trie.edge_offsets[:-1])
    log_model = string_log_probabilities(trie, edge_log_probabilities)
    target = np.exp(string_log_probabilities(trie, np.log(trie.edge_probabilities)))
    log_mass = float(logsumexp(log_model))
    # Rounded log-probabilities may sum to a little more than 1.
    off = max(0.0, -math.expm1(log_mass))
    model, log_constrained = np.exp(log_model), constrained_log_probabilities(trie, edge_log_probabilities)
    numbers = None if values is None else np.asarray(values)
    return ExactLaw(
        log_probabilities=log_model,
        prefix_divergences=divergences,
        mass_on_trie=math.exp(min(0.0, log_mass)),
        mass_off_trie=off,
        sequence_kl=float(prefix_probabilities(trie) @ divergences),
        mean_prefix_kl=float(path_prefix_weights(trie) @ divergences),
        total_variation=0.5 * (float(np.abs(target - model).sum()) + off),
        constrained_total_variation=0.5 * float(np.abs(target - np.exp(log_constrained)).sum()),
        constrained_wasserstein_1=(
            math.nan if numbers is None else grid_distances(numbers, target, log_constrained, 0.0).wasserstein_1
        ),
        grid=None if numbers is None else grid_distances(numbers, target, log_model, off),
    )


def grid_distances(values: np.ndarray, target: np.ndarray, log_model: np.ndarray, off_trie: float) -> GridDistances:
    """Compare target, float64[M] probabilities, and model, log-probabilities not normalised, on the number line.

    With D = F_target - G, G the model's sub-distribution function (total 1 - r), and a(x)
    the mass off the trie that is put at or below x, the least KS distance minimises
    sup |D - a| over non-decreasing a between 0 and r. The optimum is the largest of
    sup(-D), sup(D) - r and half the largest drop of D. Numbers instead of non-numbers cost
    nothing here: declaring mass invalid scales G up, which raises each of the three.
    """
    order = np.argsort(values, kind="stable")
    values, target, log_model = values[order], target[order], log_model[order]
    model, conditional = np.exp(log_model), np.exp(log_model - logsumexp(log_model))
    last = np.append(values[1:] != values[:-1], True)  # distribution functions jump at the last of equal values
    grid, f = values[last], np.cumsum(target)[last]
    given = np.abs(np.cumsum(conditional)[last] - f)
    difference = f - np.cumsum(model)[last]
    drop = float((np.maximum.accumulate(difference) - difference).max())
    return GridDistances(
        wasserstein_1=float(given[:-1] @ np.diff(grid)),
        ks=float(given.max()),
        ks_low=max(0.0, float((-difference).max()), float(difference.max()) - off_trie, drop / 2),
        ks_high=float(np.maximum(np.abs(difference), np.abs(difference - off_trie)).max()),
    )
