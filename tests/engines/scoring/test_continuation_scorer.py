"""Batched log-likelihoods against one plain forward pass per request."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, LlamaConfig

from pipeline.engines.scoring.continuation_scorer import ContinuationScorer

SHAPE = dict(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=128,
)


SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]


def tiny(config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.3)
    return model


@pytest.fixture(scope="module")
def llama():
    return tiny(LlamaConfig(**SHAPE))


def draw(rng, size):
    return rng.integers(5, 97, size).tolist()


def requests_of(rng):
    """Three groups of contexts with a common start, contexts of their own, and a context of one token."""
    starts = [draw(rng, size) for size in (40, 25, 0)]
    requests = []
    for index in range(12):
        context = [*starts[index % 3], *draw(rng, 1 + index)]
        requests += [(context, draw(rng, size)) for size in (1, 2, 5)]
    return [*requests, ([7], [8, 9]), (starts[0], [3]), (requests[0][0], [requests[0][1][0]])]


@torch.inference_mode()
def plain(model, context, continuation):
    logits = model(input_ids=torch.tensor([[*context, *continuation]])).logits[0].double()
    laws = torch.log_softmax(logits, dim=-1)[len(context) - 1 : -1]
    greedy = laws.argmax(dim=-1).tolist() == list(continuation)
    return sum(float(law[token]) for law, token in zip(laws, continuation, strict=True)), greedy


def collect(scorer, requests):
    done = [answer for batch in scorer.score(requests) for answer in batch]
    assert sorted(index for index, _ in done) == list(range(len(requests)))
    return [score for _, score in sorted(done, key=lambda answer: answer[0])]


def check(model, requests, budget, shares=True):
    scorer = ContinuationScorer(model, budget)
    assert scorer.shares
    scorer.shares = shares
    for request, score in zip(requests, collect(scorer, requests), strict=True):
        expected, greedy = plain(model, *request)
        assert score.log_likelihood == pytest.approx(expected, abs=1e-4)
        assert score.is_greedy == greedy
    return scorer


@pytest.mark.parametrize("budget", [4096, 150, 1])
@pytest.mark.parametrize("share", [True, False])
def test_equals_a_forward_pass_per_request(llama, budget, share):
    check(llama, requests_of(np.random.default_rng(0)), budget, share)


@pytest.mark.parametrize(
    "config",
    [
        Gemma3TextConfig(**SHAPE, sliding_window=9, layer_types=SLIDING),
        Gemma2Config(**SHAPE, sliding_window=9),
    ],
    ids=["sliding windows", "a soft cap behind the head"],
)
@pytest.mark.parametrize("budget", [4096, 150])
def test_other_architectures(config, budget):
    # Contexts are far longer than the window, and padding lies between their parts.
    check(tiny(config), requests_of(np.random.default_rng(1)), budget)


def test_a_common_start_is_run_once(llama):
    rng = np.random.default_rng(3)
    examples = draw(rng, 60)
    contexts = [[*examples, *draw(rng, 8)] for _ in range(10)]
    requests = [(context, draw(rng, 5)) for context in contexts for _ in range(4)]
    scorer = ContinuationScorer(llama, 100_000)
    collect(scorer, requests)
    # The examples, 10 questions without their last token, and 40 times that token and all of the answer but its last.
    assert scorer.positions == 60 + 10 * 7 + 40 * 5
    whole = ContinuationScorer(llama, 100_000)
    whole.shares = False
    collect(whole, requests)
    assert whole.positions == 40 * (68 + 4)


def test_logits_are_computed_in_parts(llama, monkeypatch):
    monkeypatch.setattr("pipeline.engines.scoring.token_scores.POSITIONS_PER_CALL", 3)
    check(llama, requests_of(np.random.default_rng(4)), 4096)


@pytest.mark.parametrize("request_", [([], [1]), ([1], [])])
def test_empty_texts_are_refused(llama, request_):
    with pytest.raises(ValueError, match="at least one token"):
        next(ContinuationScorer(llama, 64).score([request_]))


def test_inference_mode_does_not_reach_the_caller(llama):
    for _ in ContinuationScorer(llama, 8).score(requests_of(np.random.default_rng(5))):
        assert not torch.is_inference_mode_enabled()
