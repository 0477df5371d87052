"""The entropy along replies against that of single laws, taken one by one."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring import step_entropy
from pipeline.engines.scoring.step_entropy import StepEntropy, relative_entropies

PROMPT = [7, 12, 30, 5]
REPLIES = [[9], [4, 11, 8, 2], [4, 11], [30, 31, 32, 33, 34, 35, 36]]


def test_a_certain_law_and_one_that_leaves_all_open():
    logits = torch.zeros(2, 128)
    logits[0, 5] = 1e4
    assert relative_entropies(logits).tolist() == pytest.approx([0, 1], abs=1e-12)


@pytest.mark.parametrize(("tokens_per_pass", "laws_per_call"), [(4096, 64), (15, 3), (1, 1)])
def test_means_are_over_the_tokens_of_each_reply(model, monkeypatch, tokens_per_pass, laws_per_call):
    monkeypatch.setattr(step_entropy, "LAWS_PER_CALL", laws_per_call)
    found = StepEntropy(position_logits(model), tokens_per_pass).means(PROMPT, REPLIES)
    for place, reply in enumerate(REPLIES):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*PROMPT, *reply]])).logits[0].double()
        laws = logits.softmax(dim=-1).numpy()[len(PROMPT) - 1 : -1]
        assert len(laws) == len(reply)
        assert found[place] == pytest.approx(entropy(laws, axis=1).mean() / np.log(laws.shape[1]), abs=2e-5)
