"""Log-likelihoods of documents: models known by hand, batching, windows, BOS, adapters."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engines.scoring.perplexity import PerplexityScorer
from pipeline.errors import ModelError
from tests.engines.loading.test_chat import bos_tokenizer
from tests.engines.scoring.models import plain_laws

WORDS = ["<bos>", "<eos>", "<turn>", "a", "hello", "3", "[UNK]"]


class BigramModel(torch.nn.Module):
    """Next-token law by the last token alone: row t of ``law`` follows token t."""

    def __init__(self, law: np.ndarray):
        super().__init__()
        size = len(law)
        self.config = SimpleNamespace(vocab_size=size)
        self.config.get_text_config = lambda: self.config
        self.embedding = torch.nn.Embedding.from_pretrained(torch.eye(size))
        self.unembedding = torch.nn.Linear(size, size, bias=False)
        self.unembedding.weight.data = torch.from_numpy(np.log(law).T).float()
        self.eval()

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return self.unembedding

    def base_model(self, input_ids, attention_mask, use_cache):
        return SimpleNamespace(last_hidden_state=self.embedding(input_ids))

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        return SimpleNamespace(logits=self.unembedding(self.embedding(input_ids)))


def bigram_law() -> np.ndarray:
    law = np.random.default_rng(5).gamma(0.7, size=(7, 7)) + 0.01
    return law / law.sum(axis=1, keepdims=True)


def scorer_of(model, tokenizer=None, window=4, stride=2, tokens_per_pass=8):
    tokenizer = tokenizer or bos_tokenizer(None)
    return PerplexityScorer(model, tokenizer, window=window, stride=stride, tokens_per_pass=tokens_per_pass)


def plain_nll(model, ids: list[int], first: int) -> float:
    """Of the tokens from ``first`` on, by one forward pass over one whole document."""
    laws = plain_laws(model, ids)
    return -sum(laws[place - 1, ids[place]] for place in range(first, len(ids)))


def windowed_bigram(law: np.ndarray, ids: list[int], window: int, stride: int) -> float:
    """NLL where a window's first token, if scored, is scored from the BOS token."""
    total, scored, start = 0.0, 0, 0
    while scored < len(ids):
        stop = min(start + window - 1, len(ids))
        for place in range(scored, stop):
            total -= math.log(law[0 if place == start else ids[place - 1], ids[place]])
        start, scored = start + stride, stop
    return total


@pytest.mark.parametrize(("window", "stride"), [(2, 1), (4, 2), (5, 4), (64, 32)])
@pytest.mark.parametrize("bos", [0, None])
def test_a_bigram_model_gives_its_own_likelihood(window, stride, bos):
    # One token of context says all there is to say, so the windows must not matter.
    law, texts = bigram_law(), ["a hello 3 a a hello a 3 3", "hello", "3 a", "a a a a a a a a a a a a a a a 3"]
    scores = scorer_of(BigramModel(law), None, window, stride, 10).score(texts, bos)
    for text, score in zip(texts, scores, strict=True):
        ids = ([] if bos is None else [bos]) + [WORDS.index(word) for word in text.split()]
        expected = -sum(math.log(law[before, after]) for before, after in pairwise(ids))
        if bos == 0 and len(ids) > window:
            expected = windowed_bigram(law, ids[1:], window, stride)
        assert score.nll_nats == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert (score.num_tokens, score.num_bytes) == (len(ids) - 1, len(text))


@pytest.fixture(scope="module")
def scoring_model(model_config):
    from pipeline.engines.loading.model import load_model, load_tokenizer

    return load_model(model_config, device="cpu"), load_tokenizer(model_config)


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(2, 12),
    st.data(),
)
def test_any_text_in_any_windows_as_one_window_at_a_time(scoring_model, texts, window, data):
    model, tokenizer = scoring_model
    stride, budget = data.draw(st.integers(1, window - 1)), data.draw(st.integers(1, 64))
    scores = scorer_of(model, tokenizer, window, stride, budget).score(texts, None)
    for text, score in zip(texts, scores, strict=True):
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        expected, scored, start = 0.0, 1, 0
        while scored < len(ids):
            expected += plain_nll(model, ids[start : start + window], scored - start)
            start, scored = start + stride, min(start + window, len(ids))
        assert score.nll_nats == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_special_tokens_in_a_document_are_text(scoring_model):
    scorer = scorer_of(*scoring_model)
    (ids,) = scorer.encode(["a<|im_end|>b"])
    assert scorer.tokenizer.eos_token_id not in ids and scorer.tokenizer.decode(ids) == "a<|im_end|>b"
    assert scorer.score([], None) == [] and scorer.score(["a"], None)[0].num_tokens == 0


def test_errors():
    broken = BigramModel(bigram_law())
    with pytest.raises(ValueError, match="stride"):
        scorer_of(broken, stride=4)
    broken.embedding.weight.data[4] = math.nan
    with pytest.raises(ModelError, match="no finite likelihood to the document that starts with 'hello 3'"):
        scorer_of(broken).score(["a a", "hello 3"], None)
    with pytest.raises(ModelError, match="token 5, but the model has 5 embeddings"):
        scorer_of(BigramModel(np.full((5, 5), 0.2))).score(["a 3"], None)
