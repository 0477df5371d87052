"""Exact figures on a trie against sums over its strings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from pipeline.core.exact.trie_law import (
    constrained_log_probabilities,
    exact_law,
    leaf_edges,
    leaf_index,
    leaf_sequences,
    string_log_probabilities,
)
from pipeline.core.tries.trie import build_trie
from pipeline.core.tries.trie_walks import edge_parents, path_prefix_weights, prefix_probabilities, trie_levels

END = 9


@st.composite
def cases(draw):
    """A trie and a model whose next-token laws over the vocabulary 0..9 are Dirichlet draws."""
    token = st.integers(0, 4)
    sequences = draw(st.lists(st.lists(token, max_size=5).map(tuple), min_size=1, max_size=25, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trie = build_trie(sequences, rng.dirichlet(np.ones(len(sequences))), END)
    vocabulary = rng.dirichlet(np.full(10, draw(st.sampled_from([0.2, 1.0, 10.0]))), size=trie.num_prefixes)
    vocabulary = np.maximum(vocabulary, 1e-12)
    vocabulary /= vocabulary.sum(axis=1, keepdims=True)
    values = rng.permutation(len(leaf_edges(trie))) * 0.25
    return trie, np.log(vocabulary[edge_parents(trie), trie.edge_tokens]), values


def strings(trie, edge_log_probabilities):
    """For each string: its target probability, the model's, and the edges on its path."""
    result = []
    for sequence in leaf_sequences(trie):
        prefix, path = 0, []
        for token in [*sequence, END]:
            edges = np.arange(trie.num_edges)[trie.children(prefix)]
            edge = int(edges[trie.edge_tokens[edges] == token][0])
            path.append(edge)
            prefix = int(trie.edge_children[edge])
        result.append((np.prod(trie.edge_probabilities[path]), np.exp(edge_log_probabilities[path].sum()), path))
    return result


@settings(max_examples=60, deadline=None)
@given(cases())
def test_law_of_constrained_decoding(case):
    trie, log_edges, values = case
    parents, chosen = edge_parents(trie), np.exp(log_edges)
    expected = []
    for _, _, path in strings(trie, log_edges):
        # Every step's probability among the tokens that the trie allows there.
        allowed = [chosen[parents == parents[edge]].sum() for edge in path]
        expected.append(np.prod([chosen[edge] / total for edge, total in zip(path, allowed, strict=True)]))
    found = np.exp(constrained_log_probabilities(trie, log_edges))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    law = exact_law(trie, log_edges, values)
    target = np.array([row[0] for row in strings(trie, log_edges)])
    assert law.constrained_total_variation == pytest.approx(0.5 * np.abs(target - found).sum(), abs=1e-12)
    # The values are distinct, so SciPy's distance of the two weighted point sets is the same W1.
    if len(values) > 1:
        reference = wasserstein_distance(values, values, target, found)
        assert law.constrained_wasserstein_1 == pytest.approx(reference, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_sums_over_strings(case):
    trie, log_edges, _ = case
    law, listed = exact_law(trie, log_edges), strings(trie, log_edges)
    target, model = (np.array([row[k] for row in listed]) for k in (0, 1))
    np.testing.assert_allclose(np.exp(law.log_probabilities), model, rtol=1e-12)
    assert law.sequence_kl == pytest.approx(float(target @ np.log(target / model)), rel=1e-12, abs=1e-12)
    assert law.mass_on_trie == pytest.approx(model.sum(), rel=1e-12)
    assert law.mass_off_trie == pytest.approx(1 - model.sum(), abs=1e-12)
    assert law.total_variation == pytest.approx(0.5 * (np.abs(target - model).sum() + 1 - model.sum()), abs=1e-12)
    parents = edge_parents(trie)
    averaged = sum(p * np.mean(law.prefix_divergences[parents[path]]) for p, _, path in listed)
    assert law.mean_prefix_kl == pytest.approx(averaged, rel=1e-12, abs=1e-12)
    assert law.grid is None


@settings(max_examples=60, deadline=None)
@given(cases())
def test_weights_and_prefix_probabilities(case):
    trie, log_edges, _ = case
    weights, mass = np.zeros(trie.num_prefixes), np.zeros(trie.num_prefixes)
    parents = edge_parents(trie)
    for probability, _, path in strings(trie, log_edges):
        weights[parents[path]] += probability / len(path)
        mass[parents[path]] += probability
    np.testing.assert_allclose(path_prefix_weights(trie), weights, rtol=1e-12)
    np.testing.assert_allclose(prefix_probabilities(trie), mass, rtol=1e-12)
    assert path_prefix_weights(trie).sum() == pytest.approx(1, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_levels_and_order(case):
    trie, _, _ = case
    levels = list(trie_levels(trie))
    assert [edges.start for _, edges in levels] == [0, *[edges.stop for _, edges in levels]][:-1]
    assert levels[-1][1].stop == trie.num_edges and levels[-1][0].stop == trie.num_prefixes
    sequences = leaf_sequences(trie)
    order = np.random.default_rng(0).permutation(len(sequences))
    assert leaf_index(trie, [sequences[index] for index in order]).tolist() == order.tolist()
    absent = [[*sequences[0], END], [8], [*max(sequences, key=len), 7], [*sequences[-1], END, 1]]
    assert leaf_index(trie, absent).tolist() == [-1] * 4


def test_strings_of_probability_zero_have_no_index():
    trie = build_trie([[1, 1], [2, 2], [1]], np.array([0.0, 0.4, 0.6]), END)
    assert leaf_index(trie, [[1, 1], [2, 2], [1], []]).tolist() == [-1, 1, 0, -1]


def least_ks(values, target, model, off):
    """The least KS distance over placements of the mass off the trie, as a linear program in (a, t)."""
    order = np.argsort(values)
    f, g = np.cumsum(target[order]), np.cumsum(model[order])
    size = len(f)
    rows, limits = [], []
    for k in range(size):
        unit = np.eye(size)[k]
        rows += [np.append(unit, -1), np.append(-unit, -1)]
        limits += [f[k] - g[k], g[k] - f[k]]
        if k + 1 < size:
            rows.append(np.append(unit - np.eye(size)[k + 1], 0))
            limits.append(0)
    solution = linprog(
        np.append(np.zeros(size), 1), np.array(rows), np.array(limits), bounds=[(0, off)] * size + [(0, None)]
    )
    return solution.fun


@settings(max_examples=60, deadline=None)
@given(cases())
def test_distances_on_the_grid(case):
    trie, log_edges, values = case
    law = exact_law(trie, log_edges, values)
    target = np.exp(string_log_probabilities(trie, np.log(trie.edge_probabilities)))
    model = np.exp(law.log_probabilities)
    order = np.argsort(values)
    f, conditional = np.cumsum(target[order]), np.cumsum(model[order]) / model.sum()
    assert law.grid.ks == pytest.approx(np.abs(f - conditional).max(), abs=1e-12)
    assert law.grid.wasserstein_1 == pytest.approx(0.25 * np.abs(f - conditional)[:-1].sum(), abs=1e-12)
    assert law.grid.ks_low == pytest.approx(least_ks(values, target, model, law.mass_off_trie), abs=1e-7)
    rng = np.random.default_rng(1)
    reached = []
    for invalid in (0.0, 0.3, 1.0):
        for spot in (-np.inf, np.inf, *rng.choice(values, 3)):
            extra = law.mass_off_trie * (1 - invalid)
            g = (np.cumsum(model[order]) + extra * (values[order] >= spot)) / (model.sum() + extra)
            before = extra / (model.sum() + extra) * (spot == -np.inf)
            reached.append(max(np.abs(f - g).max(), before))
    assert max(reached) == pytest.approx(law.grid.ks_high, abs=1e-9)
    assert min(reached) >= law.grid.ks_low - 1e-12


def test_equal_values_make_one_jump():
    trie = build_trie([[1], [2]], np.array([0.5, 0.5]), END)
    log_edges = np.log([0.9, 0.1, 1.0, 1.0])
    assert exact_law(trie, log_edges, np.array([2.0, 2.0])).grid.ks == pytest.approx(0)
    assert exact_law(trie, log_edges, np.array([2.0, 3.0])).grid.ks == pytest.approx(0.4)
    assert exact_law(trie, log_edges, np.array([3.0, 1.0])).grid.wasserstein_1 == pytest.approx(0.8)


def test_tiny_and_zero_model_probabilities():
    trie = build_trie([[1], [2]], np.array([0.5, 0.5]), END)
    tiny = exact_law(trie, np.array([-900.0, -901.0, 0.0, 0.0]), np.array([0.0, 1.0]))
    assert tiny.sequence_kl == pytest.approx(900.5 - np.log(2)) and tiny.mass_off_trie == 1
    assert tiny.grid.ks == pytest.approx(1 / (1 + np.exp(-1)) - 0.5)
    zero = exact_law(trie, np.array([0.0, -np.inf, 0.0, 0.0]))
    assert zero.sequence_kl == np.inf and zero.mass_on_trie == 1 and zero.total_variation == 0.5
