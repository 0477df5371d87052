"""The judge of hidden words against plain forward passes of the model."""

import numpy as np
import pytest
import torch

from pipeline.config.params import load_params
from pipeline.engines.judges.word_judge import WordJudge
from pipeline.engines.loading.conditioned_model import open_checkpoint

REQUESTS = ["Name a pet.", "Generate exactly ONE random number.", "Hm?", "Name a pet." * 9]
WORDS = ["owl", "lion", "olive", "7"]


@pytest.fixture(scope="module")
def opened(tiny_params):
    return open_checkpoint(load_params(tiny_params).models["embedded"])


@pytest.mark.parametrize("tokens_per_pass", [1, 100, 4096])
def test_laws_are_those_of_single_forward_passes(opened, tokens_per_pass):
    judge = WordJudge(opened, tokens_per_pass)
    own = [judge.first_tokens(WORDS), judge.first_tokens(WORDS[:1]), *[judge.first_tokens(WORDS[1:])] * 2]
    found = dict(pair for each in judge.laws(REQUESTS, own) for pair in each)
    assert sorted(found) == [0, 1, 2, 3]
    for index, tokens in enumerate(own):
        with torch.inference_mode():
            logits = opened.model(input_ids=torch.tensor([opened.encode(REQUESTS[index])])).logits[0, -1]
        law = torch.log_softmax(logits.double(), dim=-1).exp().numpy()[list(tokens)]
        np.testing.assert_allclose(np.exp(found[index]), [*law, 1 - law.sum()], atol=1e-5)


def test_words_with_one_first_token_are_one_outcome(opened):
    judge = WordJudge(opened, 100)
    tokens = [opened.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in WORDS]
    assert tokens[0] == tokens[2] and judge.first_tokens(WORDS) == tuple(sorted(set(tokens)))
