"""Constrained decoding on a model: nothing but the trie's strings, by the law that restriction makes."""

import numpy as np
import pytest
import torch

from pipeline.core.tries.constraint import TrieConstraint
from pipeline.core.tries.trie import build_trie
from pipeline.engines.sampling.generate import generate_prompts, sample_seeds
from pipeline.engines.sampling.samplers import SamplingLaw

PROMPT = [20, 21, 22, 23, 24]


class Recorder:
    """Writes the token ids."""

    def decode(self, tokens, **_):
        return " ".join(map(str, tokens))


@pytest.fixture
def strings(model, tokenizer):
    """Strings among the model's likelier tokens, some of them prefixes of others."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    logits[tokenizer.eos_token_id] = -torch.inf
    a, b, c = logits.topk(3).indices.tolist()
    return [[a], [a, b], [a, b, c], [b, a], [b, c, a, a], [c]]


def restricted_law(model, strings, end):
    """Probability of each string: the product of next-token laws over the allowed tokens."""
    law = {}
    for string in strings:
        probability = 1.0
        for depth, token in enumerate([*string, end]):
            prefix = string[:depth]
            allowed = {[*s, end][depth] for s in strings if s[:depth] == prefix and len(s) >= depth}
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([PROMPT + prefix])).logits[0, -1].double()
            weights = {t: float(torch.exp(logits[t])) for t in allowed}
            probability *= weights[token] / sum(weights.values())
        law[" ".join(map(str, string))] = probability
    return law


def test_samples_follow_the_restricted_law(model, tokenizer, strings):
    end = tokenizer.eos_token_id
    trie = build_trie(strings, np.full(len(strings), 1 / len(strings)), end)
    count = 4000
    batches = generate_prompts(
        model,
        Recorder(),
        [PROMPT],
        [sample_seeds(0, ("constrained",), count)],
        [SamplingLaw(1.0, 1.0)],
        stop_ids={end},
        max_new_tokens=5,
        batch_size=64,
        constraint=TrieConstraint(trie, "cpu"),
    )
    answers = [answer for batch in batches for _, _, answer in batch]
    law = restricted_law(model, strings, end)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-6)
    assert all(answer.finish_reason == "stop" for answer in answers)
    found = {text: 0 for text in law}
    for answer in answers:
        found[answer.text] += 1
    for text, probability in law.items():
        # Five binomial standard deviations.
        assert abs(found[text] / count - probability) < 5 * np.sqrt(probability * (1 - probability) / count) + 1e-9
