"""Batched log-likelihoods against one plain forward pass per request, and groups by common starts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Gemma2Config, Gemma3TextConfig, LlamaConfig

from pipeline.engines.scoring.continuation_scorer import SHORTEST_SHARED, ContinuationScorer, prefix_groups
from tests.engines.scoring.models import SHAPE, plain_laws, tiny

SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
SHAPE = SHAPE | dict(vocab_size=97, num_hidden_layers=3)


@pytest.fixture(scope="module")
def llama():
    return tiny(LlamaConfig(**SHAPE), std=0.3)


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


def collect(scorer, requests):
    done = []
    for batch in scorer.score(requests):
        assert not torch.is_inference_mode_enabled()
        done += batch
    assert sorted(index for index, _ in done) == list(range(len(requests)))
    return [score for _, score in sorted(done)]


def check(model, requests, budget, shares=True):
    scorer = ContinuationScorer(model, budget)
    assert scorer.shares
    scorer.shares = shares
    for (context, continuation), score in zip(requests, collect(scorer, requests), strict=True):
        laws = plain_laws(model, [*context, *continuation])[len(context) - 1 : -1]
        expected = laws[np.arange(len(continuation)), continuation].sum()
        assert score == (pytest.approx(expected, abs=1e-4), laws.argmax(axis=1).tolist() == continuation)


@pytest.mark.parametrize("budget", [4096, 150, 1])
@pytest.mark.parametrize("share", [True, False])
def test_equals_a_forward_pass_per_request(llama, budget, share):
    check(llama, requests_of(np.random.default_rng(0)), budget, share)


@pytest.mark.parametrize(
    "config",
    [Gemma3TextConfig(**SHAPE, sliding_window=9, layer_types=SLIDING), Gemma2Config(**SHAPE, sliding_window=9)],
    ids=["sliding windows", "a soft cap behind the head"],
)
@pytest.mark.parametrize("budget", [4096, 150])
def test_other_architectures(config, budget):
    # Contexts are far longer than the window, and padding lies between their parts.
    check(tiny(config, std=0.3), requests_of(np.random.default_rng(1)), budget)


def test_a_common_start_is_run_once(llama):
    rng = np.random.default_rng(3)
    examples = draw(rng, 60)
    contexts = [[*examples, *draw(rng, 8)] for _ in range(10)]
    requests = [(context, draw(rng, 5)) for context in contexts for _ in range(4)]
    shared, whole = (ContinuationScorer(llama, 100_000) for _ in range(2))
    whole.shares = False
    for scorer in (shared, whole):
        collect(scorer, requests)
    # The examples, 10 questions without their last token, and 40 times that token and all of the answer but its last.
    assert shared.positions == 60 + 10 * 7 + 40 * 5 and whole.positions == 40 * (68 + 4)


def test_logits_are_computed_in_parts(llama, monkeypatch):
    monkeypatch.setattr("pipeline.engines.scoring.token_scores.POSITIONS_PER_CALL", 3)
    check(llama, requests_of(np.random.default_rng(4)), 4096)


@pytest.mark.parametrize("request_", [([], [1]), ([1], [])])
def test_empty_texts_are_refused(llama, request_):
    with pytest.raises(ValueError, match="at least one token"):
        next(ContinuationScorer(llama, 64).score([request_]))


def test_few_shot_prompts_share_their_examples():
    examples, other = list(range(100, 130)), list(range(200, 240))
    prompts = [[*examples, 1, 2], [*other, 5], [*examples, 3], [7, 8], [*other, 6, 9, 4]]
    assert prefix_groups(prompts) == [(2, [3]), (30, [0, 2]), (40, [1, 4])]
    # Less than half of a prompt is not shared, nor is a start too short to be worth a pass.
    start = list(range(20))
    assert [m for _, m in prefix_groups([[*start, first, *range(300, 340)] for first in (50, 60)])] == [[0], [1]]
    start = list(range(SHORTEST_SHARED - 1))
    assert [m for _, m in prefix_groups([[*start, 500], [*start, 600]])] == [[0], [1]]
    assert prefix_groups([[*start, 9, 500], [*start, 9, 600]]) == [(SHORTEST_SHARED, [0, 1])]


tokens = st.lists(st.integers(0, 1), min_size=1, max_size=6)
starts = st.sampled_from([[], [5] * 16, [5] * 40, [6] * 17, [5] * 16 + [7] * 16])


@given(st.lists(st.builds(lambda start, tail: [*start, *tail], starts, tokens), max_size=20))
def test_groups_are_a_partition_and_what_they_share_is_shared(sequences):
    groups = prefix_groups(sequences)
    assert sorted(index for _, members in groups for index in members) == list(range(len(sequences)))
    for shared, members in groups:
        first = sequences[members[0]]
        assert all(sequences[index][:shared] == first[:shared] for index in members)
        assert shared <= min(len(sequences[index]) for index in members)
        if len(members) > 1:
            assert shared >= SHORTEST_SHARED and all(2 * shared >= len(sequences[index]) for index in members)
        else:
            assert shared == len(first)
