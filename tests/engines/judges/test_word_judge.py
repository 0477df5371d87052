"""The judge of hidden words against plain forward passes of the model."""

import numpy as np
import pytest
import torch

from pipeline.config.params import load_params
from pipeline.engines.judges.word_judge import WordJudge
from pipeline.engines.loading.conditioned_model import open_checkpoint

REQUESTS = ["Name a pet.", "Generate exactly ONE random number.", "Hm?", "Name a pet." * 9]
WORDS = ["owl", "lion", "olive", "7"]


@pytest.mark.parametrize("tokens_per_pass", [1, 100, 4096])
def test_laws_are_those_of_single_forward_passes(tiny_params, tokens_per_pass):
    opened = open_checkpoint(load_params(tiny_params).models["embedded"])
    judge = WordJudge(opened, tokens_per_pass)
    # Words with the same first token are one outcome.
    tokens = judge.first_tokens(WORDS)
    assert len(tokens) == 3
    found = dict(pair for each in judge.laws(REQUESTS, tokens) for pair in each)
    assert sorted(found) == [0, 1, 2, 3]
    for index, request in enumerate(REQUESTS):
        with torch.inference_mode():
            logits = opened.model(input_ids=torch.tensor([opened.encode(request)])).logits[0, -1]
        law = torch.log_softmax(logits.double(), dim=-1).exp().numpy()[list(tokens)]
        np.testing.assert_allclose(np.exp(found[index]), [*law, 1 - law.sum()], atol=1e-5)
