"""Scores of a trie's paths against plain forward passes."""

import numpy as np
import pytest
import torch

from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import position_logits
from pipeline.engines.scoring.token_scores import score_paths

PROMPT = [20, 21, 22, 23, 24]


def test_scores_are_the_kl_of_the_full_distribution(model):
    trie = build_trie([[30], [31, 32]], np.array([0.25, 0.75]), 2)
    scores = score_paths(position_logits(model), PROMPT, trie, 5, np.random.default_rng(0), 0, "cpu")
    rng = np.random.default_rng(0)
    for divergences in scores:
        tokens, _ = trie.sample_path(rng)
        assert len(divergences) == len(tokens)
        for k in range(len(tokens)):
            with torch.no_grad():
                prefix = PROMPT + tokens[:k].tolist()
                log_law = torch.log_softmax(model(input_ids=torch.tensor([prefix])).logits[0, -1].double(), -1)
            ids, target = trie.next_tokens(tokens[:k].tolist())
            expected = sum(q * (np.log(q) - log_law[int(i)].item()) for i, q in zip(ids, target, strict=True))
            assert divergences[k] == pytest.approx(expected, rel=1e-4)
