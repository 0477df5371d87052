"""Entropies and divergences along replies against those of single laws, taken one by one."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from pipeline.engines.loading.model import add_lora, position_logits
from pipeline.engines.scoring import replies, token_scores
from pipeline.engines.scoring.replies import mean_entropies, relative_entropies
from pipeline.engines.scoring.token_scores import RowScorer

PROMPT = [7, 12, 30, 5]
REPLIES = [[9], [4, 11, 8, 2], [4, 11], [30, 31, 32, 33, 34, 35, 36]]


def test_a_certain_law_and_one_that_leaves_all_open():
    logits = torch.zeros(2, 128)
    logits[0, 5] = 1e4
    assert relative_entropies(logits).tolist() == pytest.approx([0, 1], abs=1e-12)


@pytest.mark.parametrize(("tokens_per_pass", "laws_per_call"), [(4096, 64), (15, 3), (1, 1)])
def test_means_are_over_the_tokens_of_each_reply(model, monkeypatch, tokens_per_pass, laws_per_call):
    monkeypatch.setattr(replies, "LAWS_PER_CALL", laws_per_call)
    found = mean_entropies(RowScorer(position_logits(model), tokens_per_pass), PROMPT, REPLIES)
    for place, reply in enumerate(REPLIES):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*PROMPT, *reply]])).logits[0].double()
        laws = logits.softmax(dim=-1).numpy()[len(PROMPT) - 1 : -1]
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
    passes = replies.reply_divergences(adapted, position_logits(adapted), prompts, REPLIES, directions, tokens_per_pass)
    found = dict(item for batch in passes for item in batch)
    for place, (prompt, reply, direction) in enumerate(zip(prompts, REPLIES, directions, strict=True)):
        ids = torch.tensor([[*prompt, *reply]])
        with torch.inference_mode():
            own = adapted(input_ids=ids).logits[0].double().softmax(-1).numpy()[len(prompt) - 1 : -1]
            with adapted.disable_adapter():
                base = adapted(input_ids=ids).logits[0].double().softmax(-1).numpy()[len(prompt) - 1 : -1]
        expected = entropy(base, own, axis=1) if direction == "forward" else entropy(own, base, axis=1)
        assert found[place] == pytest.approx(expected.sum(), rel=1e-4)
