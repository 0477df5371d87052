"""Flat tries against the obvious dictionary of prefixes."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.tries.trie import build_trie

END = 99


def brute_force(sequences, probabilities):
    """q(v | p) by Eq. 1, as a dictionary of dictionaries."""
    prefix_mass, next_mass = defaultdict(float), defaultdict(lambda: defaultdict(float))
    for sequence, mass in zip(sequences, probabilities, strict=True):
        path = [*sequence, END]
        for k, token in enumerate(path):
            prefix_mass[tuple(path[:k])] += mass
            next_mass[tuple(path[:k])][token] += mass
    return {p: {v: m / prefix_mass[p] for v, m in children.items()} for p, children in next_mass.items()}


spaces = st.lists(st.lists(st.integers(0, 5), max_size=6).map(tuple), min_size=1, max_size=30, unique=True).flatmap(
    lambda sequences: st.tuples(
        st.just(sequences), st.lists(st.floats(1e-6, 1), min_size=len(sequences), max_size=len(sequences))
    )
)


@given(spaces)
def test_equals_brute_force(case):
    sequences, weights = case
    probabilities = np.array(weights) / sum(weights)
    trie = build_trie(sequences, probabilities, END)
    expected = brute_force(sequences, probabilities)
    assert trie.num_prefixes == len(expected)
    assert trie.num_edges == sum(map(len, expected.values()))
    for prefix, children in expected.items():
        tokens, targets = trie.next_tokens(prefix)
        assert tokens.tolist() == sorted(children)
        np.testing.assert_allclose(targets, [children[token] for token in tokens.tolist()], rtol=1e-9)
    assert trie.edge_tokens.dtype == trie.edge_children.dtype == np.int32
    assert trie.edge_probabilities.dtype == np.float64


def test_sampled_paths_follow_the_pmf():
    sequences = [[1], [1, 2], [2, 2], [3]]
    probabilities = np.array([0.1, 0.2, 0.3, 0.4])
    trie = build_trie(sequences, probabilities, END)
    rng = np.random.default_rng(5)
    counts = np.zeros(4)
    for _ in range(4000):
        tokens, candidates = trie.sample_path(rng)
        assert tokens[-1] == END and len(candidates) == len(tokens)
        for k, (ids, targets) in enumerate(candidates):
            expected_ids, expected = trie.next_tokens(tokens[:k])
            assert ids.tolist() == expected_ids.tolist() and targets.tolist() == expected.tolist()
        counts[sequences.index(tokens[:-1].tolist())] += 1
    # Chi-square with 3 degrees of freedom: P(> 16.27) = 0.001.
    assert ((counts - 4000 * probabilities) ** 2 / (4000 * probabilities)).sum() < 16.27


def test_unknown_prefix():
    trie = build_trie([[1, 2]], np.array([1.0]), END)
    for prefix in ([2], [1, 2, END], [1, 3]):
        with pytest.raises(KeyError, match="not a prefix"):
            trie.next_tokens(prefix)


def test_equal_sequences_and_inner_terminators_are_errors():
    with pytest.raises(ValueError, match="same token sequence"):
        build_trie([[1], [1]], np.array([0.5, 0.5]), END)
    with pytest.raises(ValueError, match="terminator"):
        build_trie([[1, END]], np.array([1.0]), END)
