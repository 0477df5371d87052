"""A GPU whose memory is too small: the same results from smaller passes, and an error where there is no smaller one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.loading.memory import MemoryLimit, is_out_of_memory, length_buckets, right_padded
from pipeline.engines.sampling.greedy import greedy_answers
from pipeline.engines.sampling.transformers_engine import TransformersEngine
from pipeline.engines.scoring.continuation_scorer import ContinuationScorer
from pipeline.engines.scoring.perplexity import PerplexityScorer
from pipeline.errors import ModelError
from tests.engines.engine_cases import collect, limited_rows, make_request


def test_what_out_of_memory_is():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"))
    assert not is_out_of_memory(RuntimeError("size mismatch"))


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_length_buckets(lengths, budget):
    buckets = length_buckets(lengths, budget)
    assert sorted(index for bucket in buckets for index in bucket) == list(range(len(lengths)))
    for bucket in buckets:
        assert len(bucket) == 1 or max(lengths[i] for i in bucket) * len(bucket) <= budget
    longest = [max(lengths[i] for i in bucket) for bucket in buckets]
    assert longest == sorted(longest, reverse=True)


def test_right_padded():
    ids, own = right_padded([[5, 6, 7], [], [8]], "cpu", pad_id=2)
    assert ids.tolist() == [[5, 6, 7], [2, 2, 2], [8, 2, 2]] and ids.dtype == torch.int64
    assert own.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert [part.shape for part in right_padded([[], []], "cpu")] == [(2, 0), (2, 0)]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20), budget=st.integers(1, 200), room=st.integers(30, 90)
)
def test_every_row_is_run_once_in_passes_that_fit(lengths, budget, room):
    tried = []

    def run(batch):
        size = len(batch) * max(lengths[index] for index in batch)
        tried.append(size)
        if size > room:
            raise torch.OutOfMemoryError("full")
        return [lengths[index] for index in batch]

    with pytest.MonkeyPatch.context() as patch:
        # There is nothing to give back, and looking for it takes longer than the test.
        patch.setattr("pipeline.engines.loading.memory.release", lambda: None)
        results = list(MemoryLimit().run(lengths, budget, run))
    assert sorted(index for batch, _ in results for index in batch) == list(range(len(lengths)))
    assert all(values == [lengths[index] for index in batch] for batch, values in results)
    # What did not fit is not tried again: each failure is smaller than the one before.
    failures = [size for size in tried if size > room]
    assert failures == sorted(set(failures), reverse=True)


def test_a_single_row_that_does_not_fit_is_an_error_and_others_pass_through():
    def full(batch):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")

    with pytest.raises(ModelError, match=r"a sequence of 7 tokens alone does not fit .* \(CUDA out of memory\.\);"):
        list(MemoryLimit().run([7, 5], 14, full))

    def broken(batch):
        raise RuntimeError("size mismatch")

    with pytest.raises(RuntimeError, match="size mismatch"):
        list(MemoryLimit().run([7, 5], 14, broken))


def test_samples_are_the_same_from_fewer_rows(model, tokenizer, capsys):
    stops = {tokenizer.eos_token_id}
    requests = [
        make_request(tokenizer, 20, "short", max_new_tokens=6),
        make_request(tokenizer, {3: 5, 8: 6, 9: 1}, "long", text="Name a random number. " * 3, max_new_tokens=6),
    ]
    expected = collect(TransformersEngine(model, tokenizer, stops, batch_size=16), requests)
    with limited_rows(model, 3) as largest:
        found = collect(TransformersEngine(model, tokenizer, stops, batch_size=16), requests)
    assert found == expected
    assert max(largest) == 2 and "at most 2 rows from here on" in capsys.readouterr().err
    with limited_rows(model, 0), pytest.raises(ModelError, match="one answer alone does not fit into the GPU's memory"):
        collect(TransformersEngine(model, tokenizer, stops, batch_size=16), requests)


def test_scores_and_greedy_answers_are_the_same_from_fewer_rows(model, tokenizer, capsys):
    texts = [f"the number {value} and {value * 7}" for value in range(12)]
    ids = [tokenizer(text)["input_ids"] for text in texts]
    requests = [([1, 2, 3, *row], row[:3]) for row in ids]

    def all_scores():
        perplexity = PerplexityScorer(model, tokenizer, window=16, stride=8, tokens_per_pass=400)
        answers = greedy_answers(
            model, tokenizer, ids, stop_ids={tokenizer.eos_token_id}, stops=[], max_new_tokens=4, tokens_per_pass=400
        )
        shared, whole = (ContinuationScorer(model, 400) for _ in range(2))
        whole.shares = False
        continuations = [
            {index: score for batch in scorer.score(requests) for index, (score, _) in batch}
            for scorer in (shared, whole)
        ]
        nlls = [score.nll_nats for score in perplexity.score(texts, None)]
        return nlls, dict(item for batch in answers for item in batch), *continuations

    expected = all_scores()
    with limited_rows(model, 4) as largest:
        found = all_scores()
    assert max(largest) in (3, 4)
    with limited_rows(model, 4):
        # A scorer remembers what did not fit.
        scorer = PerplexityScorer(model, tokenizer, window=16, stride=8, tokens_per_pass=400)
        capsys.readouterr()
        scorer.score(texts, None)
        assert "from here on" in capsys.readouterr().err
        scorer.score(texts, None)
        assert not capsys.readouterr().err
    assert found[0] == pytest.approx(expected[0], rel=1e-4)
    assert found[1] == expected[1]
    for ours, theirs in zip(found[2:], expected[2:], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)
