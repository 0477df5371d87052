"""Restricted decoding: only strings of the trie, by the model's own probabilities renormalised at every prefix."""

import numpy as np
import pytest
import torch

from pipeline.core.tries.constraint import TrieConstraint
from pipeline.core.tries.trie import build_trie

END = 9
SEQUENCES = [[1], [1, 2], [1, 3, 4], [5, 2]]


@pytest.fixture
def trie():
    return build_trie(SEQUENCES, np.full(4, 0.25), END)


def test_restricted_laws_multiply_to_a_law_over_the_strings(trie):
    constraint = TrieConstraint(trie, "cpu")
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 12)))
    total = 0.0
    for sequence in SEQUENCES:
        prefix, probability = torch.tensor([0]), 1.0
        for token in [*sequence, END]:
            law = torch.softmax(constraint.restrict(logits, prefix), dim=-1)[0]
            probability *= float(law[token])
            prefix = constraint.advance(prefix, torch.tensor([token]))
        assert int(prefix) == -1
        total += probability
    assert total == pytest.approx(1.0, abs=1e-12)
