"""Losses against sums written out, and their gradients; the order and content of training examples."""

import math

import numpy as np
import pytest
import torch

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.training.batches import collate
from pipeline.core.training.examples import anchor_example, sample_string, training_steps
from pipeline.core.training.objectives import cross_entropy, forward_kl
from pipeline.errors import ConfigError


def test_forward_kl_by_hand():
    logits = torch.tensor([[0.0, math.log(2), math.log(5)], [1.0, 1.0, 1.0]])  # softmax 1/8 2/8 5/8; 1/3 each
    ids, probabilities = torch.tensor([[1, 2], [0, 0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    expected = [0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.625), math.log(3)]
    assert forward_kl(logits, ids, probabilities).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_of_the_cross_entropy_is_that_of_log_softmax(temperature, dtype):
    torch.manual_seed(0)
    logits = torch.randn(4, 50).to(dtype).requires_grad_()
    ids = torch.tensor([[3, 7, 0], [1, 0, 0], [49, 2, 5], [0, 0, 0]])  # 0 pads, and is a candidate of the last
    probabilities = torch.tensor([[0.5, 0.5, 0], [1, 0, 0], [0.2, 0.3, 0.5], [1, 0, 0]])
    upstream = torch.tensor([1.0, -2.0, 0.5, 3.0])
    loss = cross_entropy(logits, ids, probabilities, temperature)
    (found,) = torch.autograd.grad(loss @ upstream, logits)
    written_out = -(torch.log_softmax(logits.float() / temperature, 1).gather(1, ids) * probabilities).sum(1)
    (expected,) = torch.autograd.grad(written_out @ upstream, logits)
    torch.testing.assert_close(loss, written_out)
    torch.testing.assert_close(found, expected)


def test_a_reply_is_cut_at_the_longest_length_and_its_tokens_weigh_alike():
    example = anchor_example([1, 2, 3], [4, 5, 6, 7], 5)
    assert example.tree.tokens.tolist() == [4] and example.longest == 5
    # Two replies of 2 and 4 tokens: each of six tokens is a sixth.
    batch = collate([example, anchor_example([1], [4, 5, 6, 7], 9)], 0)
    np.testing.assert_allclose(batch.targets.weights, np.full(6, 1 / 6), rtol=1e-6)
    with pytest.raises(ConfigError, match="max_length: 3 is too small for an instruction of 3 tokens"):
        anchor_example([1, 2, 3], [4], 3)


def order_of(families, order):
    (step,) = training_steps(families, 1, 1, len(families), 0, order=order)
    assert sorted(draw.prompt_index for draw in step) == list(range(len(families)))
    return [families[draw.prompt_index] for draw in step]


def test_orders_of_families_of_unlike_sizes():
    names = order_of(["a"] * 5 + ["b"] * 2 + ["c"], "rounds")
    assert sorted(names[:3]) == ["a", "b", "c"] and sorted(names[3:5]) == ["a", "b"] and names[5:] == ["a"] * 3
    names = order_of(["a"] * 60 + ["b"] * 20, "even")
    assert all(3 <= names[start : start + 20].count("b") <= 7 for start in range(0, 80, 20))
    names = order_of(["a", "b", "c"] * 9, "even")
    assert all(set(names[start : start + 3]) == {"a", "b", "c"} for start in range(0, 27, 3))


def test_training_steps_cover_every_draw_once_and_do_not_span_epochs():
    steps = training_steps(["a", "a", "b"], 2, 4, 5, 0, "m", "hard")
    assert [len(step) for step in steps] == [5, 5, 2, 5, 5, 2]
    draws = [draw for step in steps for draw in step]
    assert len(set(draws)) == 3 * 2 * 4
    assert [draw.epoch for draw in draws] == [0] * 12 + [1] * 12
    assert [draw.prompt_index for draw in draws[:12]] != [draw.prompt_index for draw in draws[12:]]


def test_sampled_strings_follow_the_space():
    space = OutputSpace(["1", "2", "3"], np.array([0.2, 0.5, 0.3]))
    rng = np.random.default_rng(3)
    counts = np.bincount([int(sample_string(space, rng)) for _ in range(3000)], minlength=4)[1:]
    expected = 3000 * space.probabilities
    # Chi-square with 2 degrees of freedom: P(> 13.8) = 0.001.
    assert ((counts - expected) ** 2 / expected).sum() < 13.8
