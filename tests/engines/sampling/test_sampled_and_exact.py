"""What sampling estimates converges to what the exact law computes, on the shipped model."""

import math

import numpy as np
import pytest

from pipeline.config.params import load_params
from pipeline.core.exact.trie_law import exact_law
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.trie import build_tries
from pipeline.engines.loading.chat import answer_terminator, encode_request
from pipeline.engines.loading.digit_rule import find_digit_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer
from pipeline.engines.sampling.generate import generate, sample_seeds
from pipeline.engines.scoring.tree_scorer import TreeScorer
from tests.conftest import ROOT
from tests.core.conftest import leaf_sequences

PROMPTS = {p.family: p for split in ("unseen", "ood") for p in build_split(split, selection="selected")}


class Shipped:
    """The embedded base model, its digit rule and its answers."""

    def __init__(self):
        config = load_params(ROOT / "params.yaml").models["embedded"]
        self.config, self.tokenizer, self.model = config, load_tokenizer(config), load_model(config, device="cpu")
        self.scorer = TreeScorer(self.model)
        self.terminator = answer_terminator(self.tokenizer, config.terminator)
        self.rule: DigitTokens = find_digit_tokens(self.tokenizer, self.terminator)

    def encode(self, prompt) -> list[int]:
        return encode_request(self.tokenizer, prompt.text, self.config.chat.template_arguments)

    def answers(self, prompt, count: int) -> list[str]:
        results = generate(
            self.model,
            self.tokenizer,
            self.encode(prompt),
            sample_seeds(0, ("exact", prompt.prompt_id), count),
            stop_ids={self.terminator},
            max_new_tokens=32,
            temperature=1.0,
            top_p=1.0,
            batch_size=500,
        )
        return [result.text for result in results]


@pytest.fixture(scope="module")
def shipped(monkeypatch_module) -> Shipped:
    return Shipped()


@pytest.fixture(scope="module")
def monkeypatch_module():
    patch = pytest.MonkeyPatch()
    patch.chdir(ROOT)
    yield patch
    patch.undo()


def test_counts_of_strings_follow_their_exact_probabilities(shipped):
    prompt = PROMPTS["poisson"]
    space = discretize(prompt.law, num_decimals=5, max_bins=1001)
    trie = next(build_tries([space], shipped.rule))
    ids = shipped.encode(prompt)
    exact = exact_law(trie, shipped.scorer.score_trie(shipped.scorer.prefill(ids), trie))
    texts = ["".join(shipped.rule.text_of[token] for token in sequence) for sequence in leaf_sequences(trie)]
    drawn = shipped.answers(prompt, 4000)
    expected = np.append(np.exp(exact.log_probabilities), exact.mass_off_trie) * len(drawn)
    counts = [drawn.count(text) for text in texts]
    observed = np.array([*counts, len(drawn) - sum(counts)])
    keep = expected >= 5
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1)).sum()
    degrees = len(expected) - 1
    assert statistic < degrees + 4 * math.sqrt(2 * degrees)
