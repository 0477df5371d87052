"""The first-step law against a plain forward pass, in float32 and from a bfloat16 copy."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig

from pipeline.engines.loading.model import PositionLogits, position_logits
from pipeline.engines.scoring import token_scores
from pipeline.engines.scoring.token_scores import first_step_law

PROMPT = [7, 12, 30, 5, 11, 19]
SHAPE = dict(
    vocab_size=4099,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)


@torch.inference_mode()
def plain(model, prompt):
    logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return torch.log_softmax(logits.double(), dim=-1).numpy()


def tiny(config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.3)
    return model


@pytest.mark.parametrize("positions_per_call", [256, 1, 0])
def test_equals_a_plain_forward_pass(model, monkeypatch, positions_per_call):
    # Chunks of the whole vocabulary, of 9 tokens (not a divisor) and of one.
    assert model.config.vocab_size // model.config.hidden_size == 9 and model.config.vocab_size % 9
    monkeypatch.setattr(token_scores, "POSITIONS_PER_CALL", positions_per_call)
    logits_at = position_logits(model)
    assert logits_at.gathers_hidden
    law = first_step_law(logits_at, PROMPT, "cpu")
    assert law.dtype == np.float32 and law.shape == (model.config.vocab_size,)
    np.testing.assert_allclose(law, plain(model, PROMPT), atol=2e-5)
    assert np.exp(law.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_is_the_law_behind_the_last_token(model):
    logits_at = position_logits(model)
    laws = [first_step_law(logits_at, PROMPT[:size], "cpu") for size in (1, 3, 6)]
    for size, law in zip((1, 3, 6), laws, strict=True):
        np.testing.assert_allclose(law, plain(model, PROMPT[:size]), atol=2e-5)
    assert not np.allclose(laws[0], laws[1], atol=1e-2)


def test_a_head_with_bias(model):
    model = copy.deepcopy(model)
    head = model.get_output_embeddings()
    head.bias = torch.nn.Parameter(torch.randn(head.out_features))
    law = first_step_law(position_logits(model), PROMPT, "cpu")
    np.testing.assert_allclose(law, plain(model, PROMPT), atol=2e-5)


def test_states_that_cannot_be_gathered():
    # Gemma 2 caps its logits behind the head: the model's own logits must be used.
    model = tiny(Gemma2Config(**SHAPE))
    logits_at = position_logits(model)
    assert not logits_at.gathers_hidden
    np.testing.assert_allclose(first_step_law(logits_at, PROMPT, "cpu"), plain(model, PROMPT), atol=2e-5)


def test_a_head_that_is_not_one_linear_layer(model):
    # As an adapter on the head would be: its weight alone is not what it computes.
    class Scaled(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.weight = inner, inner.weight

        def forward(self, states):
            return 2 * self.inner(states)

    model = copy.deepcopy(model)
    model.lm_head = Scaled(model.lm_head)
    law = first_step_law(PositionLogits(model, True), PROMPT, "cpu")
    np.testing.assert_allclose(law, plain(model, PROMPT), atol=2e-5)


def test_bfloat16_weights_do_not_round_the_law():
    model = tiny(LlamaConfig(**SHAPE)).to(torch.bfloat16)
    law = first_step_law(position_logits(model), PROMPT, "cpu")
    rounded = plain(model, PROMPT)
    # bfloat16 has 8 bits, so many of the 4,099 logits coincide.
    assert len(np.unique(rounded)) < 2000 and len(np.unique(law)) > 4000

    # The same head product in float64, from the same bfloat16 state and weights.
    with torch.inference_mode():
        state = model.model(input_ids=torch.tensor([PROMPT])).last_hidden_state[0, -1]
        exact = torch.log_softmax(model.lm_head.weight.double() @ state.double(), dim=-1).numpy()
    assert np.abs(law - exact).max() < 2e-5
    assert np.abs(rounded - exact).max() > 100 * np.abs(law - exact).max()
