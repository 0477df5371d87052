"""Exact figures on a trie against sums over its strings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.tries.trie import LEAF, build_trie, edge_parents
from tests.core.conftest import leaf_sequences

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
    values = rng.permutation(int((trie.edge_children == LEAF).sum())) // 2 * 0.25
    return trie, np.log(vocabulary[edge_parents(trie), trie.edge_tokens]), values


def strings(trie, edge_log_probabilities):
    """The target's and the model's probability of each string."""
    result = []
    for sequence in leaf_sequences(trie):
        prefix, path = 0, []
        for token in [*sequence, END]:
            edges = np.arange(trie.num_edges)[trie.children(prefix)]
            edge = int(edges[trie.edge_tokens[edges] == token][0])
            path.append(edge)
            prefix = int(trie.edge_children[edge])
        result.append((np.prod(trie.edge_probabilities[path]), np.exp(edge_log_probabilities[path].sum())))
    return np.array(result).T


@settings(max_examples=60, deadline=None)
@given(cases())
def test_figures_are_sums_over_strings(case):
    trie, log_edges, values = case
    law, (target, model) = exact_law(trie, log_edges, values), strings(trie, log_edges)
    np.testing.assert_allclose(np.exp(law.log_probabilities), model, rtol=1e-12)
    assert law.mass_off_trie == pytest.approx(1 - model.sum(), abs=1e-12)
    assert law.wasserstein_1 == pytest.approx(wasserstein_distance(values, values, target, model), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_places_of_strings(case):
    trie, _, _ = case
    sequences = leaf_sequences(trie)
    order = np.random.default_rng(0).permutation(len(sequences))
    assert leaf_index(trie, [sequences[index] for index in order]).tolist() == order.tolist()
    absent = [[*sequences[0], END], [8], [*max(sequences, key=len), 7], [*sequences[-1], END, 1]]
    assert leaf_index(trie, absent).tolist() == [-1] * 4


def test_tiny_and_zero_model_probabilities():
    trie = build_trie([[1], [2]], np.array([0.5, 0.5]), END)
    tiny = exact_law(trie, np.array([-900.0, -901.0, 0.0, 0.0]), np.array([0.0, 1.0]))
    assert tiny.mass_off_trie == 1 and tiny.wasserstein_1 == pytest.approx(1 / (1 + np.exp(-1)) - 0.5)
    assert exact_law(trie, np.array([0.0, -np.inf, 0.0, 0.0])).mass_off_trie == 0
