"""What sampling estimates converges to what the exact law computes, on the shipped model."""

from collections import Counter

import numpy as np

from pipeline.config.params import load_params
from pipeline.core.exact.trie_law import exact_law
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.statistics.law_check import LawCells
from pipeline.core.tries.trie import build_tries
from pipeline.engines.loading.chat import request_encoder
from pipeline.engines.loading.digit_rule import answer_tokens
from pipeline.engines.loading.model import load_model, load_tokenizer
from pipeline.engines.sampling.generate import generate, sample_seeds
from pipeline.engines.scoring.tree_scorer import TreeScorer
from tests.conftest import ROOT
from tests.core.conftest import leaf_sequences


def test_counts_of_strings_follow_their_exact_probabilities(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_params(ROOT / "params.yaml").models["embedded"]
    tokenizer, model = load_tokenizer(config), load_model(config, device="cpu")
    terminator, rule = answer_tokens(tokenizer, config.terminator, 5)
    prompt = next(prompt for prompt in build_split("ood", selection="selected") if prompt.family == "poisson")
    trie = next(build_tries([discretize(prompt.law, num_decimals=5, max_bins=1001)], rule))
    scorer, ids = TreeScorer(model), request_encoder(tokenizer, config)(prompt.text)
    exact = exact_law(trie, scorer.score_trie(scorer.prefill(ids), trie))
    texts = tokenizer.batch_decode(leaf_sequences(trie))
    answers = generate(
        model,
        tokenizer,
        ids,
        sample_seeds(0, ("exact", prompt.prompt_id), 4000),
        stop_ids={terminator},
        max_new_tokens=32,
        temperature=1.0,
        top_p=1.0,
        batch_size=500,
    )
    law = dict(zip(texts, np.exp(exact.log_probabilities).tolist(), strict=True))
    assert LawCells(law, 4000).p_value(Counter(answer.text for answer in answers)) > 1e-3
