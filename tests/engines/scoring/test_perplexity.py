"""Log-likelihoods of documents: models known by hand, batching, windows, BOS, adapters."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.axes.paloma.perplexity import bits_per_byte, perplexity
from pipeline.engines.scoring import token_scores
from pipeline.engines.scoring.perplexity import PerplexityScorer
from pipeline.errors import ModelError
from tests.engines.loading.test_chat import bos_tokenizer

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


def plain_nll(model, ids: list[int], first: int) -> float:
    """One forward pass over one whole document."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    logs = torch.log_softmax(logits, dim=-1)
    return -sum(logs[place - 1, ids[place]].item() for place in range(first, len(ids)))


@pytest.mark.parametrize("bos", [0, None])
def test_a_uniform_model_has_the_vocabulary_as_perplexity(bos):
    scorer = PerplexityScorer(
        BigramModel(np.full((7, 7), 1 / 7)), bos_tokenizer(None), window=4, stride=2, tokens_per_pass=8
    )
    scores = scorer.score(["a hello 3 a a hello", "3 a hello"], bos)
    assert [score.num_tokens for score in scores] == ([6, 3] if bos == 0 else [5, 2])
    assert [score.num_bytes for score in scores] == [19, 9]
    nll, tokens = sum(score.nll_nats for score in scores), sum(score.num_tokens for score in scores)
    assert perplexity(nll, tokens) == pytest.approx(7, rel=1e-6)
    assert bits_per_byte(nll, 28) == pytest.approx(tokens * math.log2(7) / 28, rel=1e-6)


@pytest.mark.parametrize(("window", "stride"), [(2, 1), (4, 2), (5, 4), (64, 32)])
@pytest.mark.parametrize("bos", [0, None])
def test_a_bigram_model_gives_its_own_likelihood(window, stride, bos):
    # One token of context says all there is to say, so the windows must not matter.
    law, tokenizer = bigram_law(), bos_tokenizer(None)
    texts = ["a hello 3 a a hello a 3 3", "hello", "3 a", "a a a a a a a a a a a a a a a 3"]
    scores = PerplexityScorer(BigramModel(law), tokenizer, window=window, stride=stride, tokens_per_pass=10).score(
        texts, bos
    )
    for text, score in zip(texts, scores, strict=True):
        ids = ([] if bos is None else [bos]) + [WORDS.index(word) for word in text.split()]
        expected = -sum(math.log(law[before, after]) for before, after in pairwise(ids))
        if bos == 0 and len(ids) > window:
            # A window's first token, if it is scored there, is scored from the BOS token.
            expected = windowed_bigram(law, ids[1:], window, stride)
        assert score.nll_nats == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert score.num_tokens == len(ids) - 1


def windowed_bigram(law: np.ndarray, ids: list[int], window: int, stride: int) -> float:
    """NLL where a window's first token, if scored, is scored from the BOS token."""
    total, scored, start = 0.0, 0, 0
    while scored < len(ids):
        stop = min(start + window - 1, len(ids))
        for place in range(scored, stop):
            total -= math.log(law[0 if place == start else ids[place - 1], ids[place]])
        start, scored = start + stride, stop
    return total


def test_packing_and_chunks_of_the_head_do_not_matter(model, tokenizer, monkeypatch):
    monkeypatch.setattr(token_scores, "POSITIONS_PER_CALL", 2)
    rows = []
    model.get_output_embeddings().register_forward_hook(lambda module, arguments, logits: rows.append(len(logits)))
    texts = [("Generate 3 numbers. " * count)[: 7 * count] for count in (1, 3, 9, 2, 30, 4)]
    packed = PerplexityScorer(model, tokenizer, window=16, stride=6, tokens_per_pass=64)
    rows.clear()
    together = packed.score(texts, None)
    assert max(rows) == 2 and sum(rows) == sum(score.num_tokens for score in together)
    alone = [packed.score([text], None)[0] for text in texts]
    for text, a, b in zip(texts, together, alone, strict=True):
        assert a.nll_nats == pytest.approx(b.nll_nats, rel=1e-5)
        assert (
            (a.num_tokens, a.num_bytes) == (b.num_tokens, b.num_bytes) == (len(packed.encode([text])[0]) - 1, len(text))
        )
    whole = PerplexityScorer(model, tokenizer, window=4096, stride=1, tokens_per_pass=4096).score(texts, None)
    for text, score in zip(texts, whole, strict=True):
        assert score.nll_nats == pytest.approx(plain_nll(model, packed.encode([text])[0], 1), rel=1e-5)


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(2, 12),
    st.data(),
)
def test_any_text_in_any_windows_as_one_window_at_a_time(scoring_model, texts, window, data):
    model, tokenizer = scoring_model
    stride = data.draw(st.integers(1, window - 1))
    budget = data.draw(st.integers(1, 64))
    scores = PerplexityScorer(model, tokenizer, window=window, stride=stride, tokens_per_pass=budget).score(texts, None)
    for text, score in zip(texts, scores, strict=True):
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        expected, scored, start = 0.0, 1, 0
        while scored < len(ids):
            expected += plain_nll(model, ids[start : start + window], scored - start)
            start, scored = start + stride, min(start + window, len(ids))
        assert score.nll_nats == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert score.num_bytes == len(text.encode())


@pytest.fixture(scope="module")
def scoring_model(model_config):
    from pipeline.engines.loading.model import load_model, load_tokenizer

    return load_model(model_config, device="cpu"), load_tokenizer(model_config)


def test_bos_is_there_once_in_every_window(monkeypatch):
    model, seen = BigramModel(bigram_law()), []
    scorer = PerplexityScorer(model, bos_tokenizer(None), window=4, stride=2, tokens_per_pass=6)
    forward = model.base_model
    monkeypatch.setattr(
        model, "base_model", lambda input_ids, **rest: seen.extend(input_ids.tolist()) or forward(input_ids, **rest)
    )
    text = "a hello 3 hello a a"
    assert scorer.score([text], 0)[0].num_tokens == 6
    # Windows of BOS and three tokens; the last one of each is not an input.
    assert sorted(seen) == sorted([[0, 3, 4], [0, 5, 4], [0, 3]])
    seen.clear()
    assert scorer.score([text], None)[0].num_tokens == 5
    assert sorted(seen) == sorted([[3, 4, 5], [5, 4, 3]])


def test_special_tokens_in_a_document_are_text(scoring_model):
    model, tokenizer = scoring_model
    scorer = PerplexityScorer(model, tokenizer, window=64, stride=32, tokens_per_pass=64)
    (ids,) = scorer.encode(["a<|im_end|>b"])
    assert tokenizer.eos_token_id not in ids and tokenizer.decode(ids) == "a<|im_end|>b"


def test_documents_without_a_scored_token(scoring_model):
    scorer = PerplexityScorer(*scoring_model, window=8, stride=4, tokens_per_pass=64)
    assert scorer.score([], None) == []
    (score,) = scorer.score(["a"], None)
    assert (score.nll_nats, score.num_tokens, score.num_bytes) == (0.0, 0, 1)


def test_a_model_that_gives_logits_only(scoring_model):
    model, tokenizer = scoring_model
    texts = ["Generate exactly ONE random number."] * 3
    scorer = PerplexityScorer(model, tokenizer, window=16, stride=8, tokens_per_pass=64)
    expected = [score.nll_nats for score in scorer.score(texts, None)]
    model.config.final_logit_softcapping = 1e6
    try:
        capped = PerplexityScorer(model, tokenizer, window=16, stride=8, tokens_per_pass=64)
        assert not capped._logits_at.gathers_hidden
        assert [score.nll_nats for score in capped.score(texts, None)] == pytest.approx(expected, rel=1e-5)
    finally:
        del model.config.final_logit_softcapping


def test_errors():
    broken = BigramModel(bigram_law())
    options = {"window": 4, "stride": 2, "tokens_per_pass": 8}
    with pytest.raises(ValueError, match="stride"):
        PerplexityScorer(broken, bos_tokenizer(None), window=4, stride=4, tokens_per_pass=8)
    broken.embedding.weight.data[4] = math.nan
    with pytest.raises(ModelError, match="no finite likelihood to the document that starts with 'hello 3'"):
        PerplexityScorer(broken, bos_tokenizer(None), **options).score(["a a", "hello 3"], None)
    small = BigramModel(np.full((5, 5), 0.2))
    with pytest.raises(ModelError, match="token 5, but the model has 5 embeddings"):
        PerplexityScorer(small, bos_tokenizer(None), **options).score(["a 3"], None)
