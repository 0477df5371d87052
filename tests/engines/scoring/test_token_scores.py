"""First-step laws, divergences along paths, entropies and divergences along replies, against single plain laws."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from transformers import LlamaConfig

from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import add_lora, position_logits
from pipeline.engines.scoring import token_scores
from pipeline.engines.scoring.token_scores import (
    RowScorer,
    first_step_law,
    mean_entropies,
    reply_divergences,
    score_paths,
)
from tests.engines.scoring.models import SHAPE, plain_laws, tiny

PROMPT = [7, 12, 30, 5, 11, 19]
REPLIES = [[9], [4, 11, 8, 2], [4, 11], [30, 31, 32, 33, 34, 35, 36]]
LARGE = SHAPE | {"vocab_size": 4099}


@pytest.mark.parametrize("positions_per_call", [256, 1, 0])
def test_the_first_step_equals_a_plain_forward_pass(model, monkeypatch, positions_per_call):
    # Chunks of the whole vocabulary, of 9 tokens (not a divisor) and of one.
    assert model.config.vocab_size // model.config.hidden_size == 9 and model.config.vocab_size % 9
    monkeypatch.setattr(token_scores, "POSITIONS_PER_CALL", positions_per_call)
    for size in (1, 3, 6):
        law = first_step_law(position_logits(model), PROMPT[:size], "cpu")
        assert law.dtype == np.float32
        np.testing.assert_allclose(law, plain_laws(model, PROMPT[:size])[-1], atol=2e-5)


def test_bfloat16_weights_do_not_round_the_law():
    model = tiny(LlamaConfig(**LARGE), dtype=torch.bfloat16, std=0.3)
    law, rounded = first_step_law(position_logits(model), PROMPT, "cpu"), plain_laws(model, PROMPT)[-1]
    # bfloat16 has 8 bits, so many of the 4,099 logits coincide.
    assert len(np.unique(rounded)) < 2000 and len(np.unique(law)) > 4000
    # The same head product in float64, from the same bfloat16 state and weights.
    with torch.inference_mode():
        state = model.model(input_ids=torch.tensor([PROMPT])).last_hidden_state[0, -1]
        exact = torch.log_softmax(model.lm_head.weight.double() @ state.double(), dim=-1).numpy()
    assert np.abs(law - exact).max() < 2e-5
    assert np.abs(rounded - exact).max() > 100 * np.abs(law - exact).max()


def test_scores_of_paths_are_the_kl_of_the_full_distribution(model):
    trie = build_trie([[30], [31, 32]], np.array([0.25, 0.75]), 2)
    scores = score_paths(position_logits(model), PROMPT, trie, 5, np.random.default_rng(0), 0, "cpu")
    rng = np.random.default_rng(0)
    for divergences in scores:
        tokens, _ = trie.sample_path(rng)
        laws = plain_laws(model, [*PROMPT, *tokens.tolist()])[len(PROMPT) - 1 :]
        assert len(divergences) == len(tokens)
        for k in range(len(tokens)):
            ids, target = trie.next_tokens(tokens[:k].tolist())
            assert divergences[k] == pytest.approx((target * (np.log(target) - laws[k][ids])).sum(), rel=1e-4)


@pytest.mark.parametrize(("tokens_per_pass", "laws_per_call"), [(4096, 64), (15, 3), (1, 1)])
def test_mean_entropies_are_over_the_tokens_of_each_reply(model, monkeypatch, tokens_per_pass, laws_per_call):
    monkeypatch.setattr(token_scores, "LAWS_PER_CALL", laws_per_call)
    found = mean_entropies(RowScorer(position_logits(model), tokens_per_pass), PROMPT, REPLIES)
    for place, reply in enumerate(REPLIES):
        laws = np.exp(plain_laws(model, [*PROMPT, *reply])[len(PROMPT) - 1 : -1])
        assert len(laws) == len(reply)
        assert found[place] == pytest.approx(entropy(laws, axis=1).mean() / np.log(laws.shape[1]), abs=2e-5)


@pytest.mark.parametrize("tokens_per_pass", [4096, 1])
def test_divergences_are_sums_over_the_tokens_of_each_reply(model, model_config, monkeypatch, tokens_per_pass):
    monkeypatch.setattr(token_scores, "POSITIONS_PER_CALL", 3)
    adapted = add_lora(model, model_config, rank=2, alpha=4, dropout=0.0).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(0))
    prompts, directions = [PROMPT[place:] for place in range(4)], ["forward", "reverse", "reverse", "forward"]
    passes = reply_divergences(adapted, position_logits(adapted), prompts, REPLIES, directions, tokens_per_pass)
    found = dict(item for batch in passes for item in batch)
    for place, (prompt, reply, direction) in enumerate(zip(prompts, REPLIES, directions, strict=True)):
        own = np.exp(plain_laws(adapted, [*prompt, *reply])[len(prompt) - 1 : -1])
        with adapted.disable_adapter():
            base = np.exp(plain_laws(adapted, [*prompt, *reply])[len(prompt) - 1 : -1])
        expected = entropy(base, own, axis=1) if direction == "forward" else entropy(own, base, axis=1)
        assert found[place] == pytest.approx(expected.sum(), rel=1e-4)
