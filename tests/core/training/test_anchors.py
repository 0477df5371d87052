"""Divergences from the base checkpoint against sums written out, their gradients, and the dual step on their weight."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, rel_entr

from pipeline.core.training.anchors import anchor_example, next_weight
from pipeline.core.training.batches import collate
from pipeline.core.training.objectives import (
    Targets,
    forward_anchor_loss,
    reverse_anchor_loss,
    soft_target_loss,
    with_outside_kl,
)
from pipeline.errors import ConfigError

POSITIONS, VOCABULARY = 6, 40


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(POSITIONS, VOCABULARY, generator=generator), torch.randn(
        POSITIONS, VOCABULARY, generator=generator
    )


def targets(ids, probabilities):
    weights = torch.arange(1.0, POSITIONS + 1)
    return Targets(torch.tensor(ids), torch.tensor(probabilities), weights / weights.sum())


ONE_TOKEN = targets([[4]] * POSITIONS, [[1.0]] * POSITIONS)
# The second candidate of every other position is padding.
TWO_TOKENS = targets([[4, 7], [9, 0]] * 3, [[0.3, 0.7], [1.0, 0.0]] * 3)


def laws(values):
    return np.exp(log_softmax(values.double().numpy(), axis=1))


@pytest.mark.parametrize(
    ("loss", "divergence"),
    [
        (forward_anchor_loss, lambda own, base: rel_entr(base, own)),
        (reverse_anchor_loss, lambda own, base: rel_entr(own, base)),
    ],
    ids=["forward", "reverse"],
)
def test_divergence_is_the_sum_over_the_whole_vocabulary(logits, loss, divergence):
    own, base = logits
    expected = divergence(*map(laws, logits)).sum(axis=1) @ ONE_TOKEN.weights.numpy()
    # The targets' temperature is theirs alone.
    assert loss(own, ONE_TOKEN, 2.0, base).item() == pytest.approx(expected, rel=1e-5)
    assert loss(base, ONE_TOKEN, 1.0, base).item() == pytest.approx(0, abs=1e-6)


def test_forward_gradient_is_model_less_base(logits):
    own, base = logits[0].requires_grad_(), logits[1]
    forward_anchor_loss(own, ONE_TOKEN, 1.0, base).backward()
    expected = (laws(own.detach()) - laws(base)) * ONE_TOKEN.weights.numpy()[:, None]
    np.testing.assert_allclose(own.grad.numpy(), expected, atol=1e-6)


def test_outside_divergence_leaves_the_named_tokens_alone(logits):
    own, base = logits[0].requires_grad_(), logits[1]
    loss = with_outside_kl(lambda logits, targets, temperature: logits.sum() * 0, 0.5)
    loss(own, TWO_TOKENS, 1.0, base).backward()
    named = [[4, 7], [9]] * 3
    expected = 0.0
    for position, tokens in enumerate(named):
        outside = np.setdiff1d(np.arange(VOCABULARY), tokens)
        assert own.grad[position, tokens].abs().max() == 0 and own.grad[position, outside].abs().max() > 0
        p, q = (laws(values.detach())[position, outside] for values in (own, base))
        expected += 0.5 * rel_entr(q / q.sum(), p / p.sum()).sum() * TWO_TOKENS.weights[position].item()
    assert loss(own, TWO_TOKENS, 1.0, base).item() == pytest.approx(expected, rel=1e-5)
    whole = with_outside_kl(soft_target_loss, 0.5)(own, TWO_TOKENS, 1.0, base).item()
    assert whole == pytest.approx(expected + soft_target_loss(own, TWO_TOKENS).item(), rel=1e-5)


def test_a_reply_is_cut_at_the_longest_length_and_its_tokens_weigh_alike():
    example = anchor_example([1, 2, 3], [4, 5, 6, 7], 5)
    assert example.tree.tokens.tolist() == [4] and example.longest == 5
    # Two replies of 2 and 4 tokens: each of six tokens is a sixth.
    batch = collate([example, anchor_example([1], [4, 5, 6, 7], 9)], 0)
    np.testing.assert_allclose(batch.targets.weights, np.full(6, 1 / 6), rtol=1e-6)
    with pytest.raises(ConfigError, match="max_length: 3 is too small for an instruction of 3 tokens"):
        anchor_example([1, 2, 3], [4], 3)


@given(budget=st.floats(0.01, 1), scale=st.floats(0.01, 10), start=st.floats(0.05, 20), response=st.floats(0.3, 2))
def test_the_weight_settles_where_the_divergence_is_the_budget(budget, scale, start, response):
    # A divergence that falls with the weight, as that of an optimum does.
    def divergence(weight):
        return scale * weight**-response

    weight = start
    for _ in range(2000):
        weight = next_weight(weight, divergence(weight), budget, 1e-9)
    assert divergence(weight) == pytest.approx(budget, rel=1e-3)
    assert next_weight(start, 0.0, budget, start) == start
