"""The embedded model's recipe: its data are golden, its training deterministic, and the checkpoint ships."""

import functools
import hashlib
import json
import re

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from scripts.embedded_model import recipe, training
from scripts.embedded_model.instructions import Exchange, draw_parameters, numeric_exchanges
from scripts.embedded_model.recipe import Recipe, tokenizer_texts
from scripts.embedded_model.training import sharpened_exchanges

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FAMILIES)
def test_numeric_answers_are_in_the_support(name):
    family, rng = FAMILIES[name], np.random.default_rng(1)
    for _ in range(5):
        parameters = draw_parameters(family, rng)
        family.check(parameters)
        law = family.law_at(parameters)
        for exchange in numeric_exchanges(family, parameters, rng, 8):
            answer = exchange.reply.split("<answer>")[-1].removesuffix("</answer>")
            assert not isinstance(parse_sample(answer, law.support, law.integer), Invalid)


def test_the_recipe_still_makes_the_same_text():
    # CPython's help texts come first, and differ between its versions.
    made = "".join(tokenizer_texts(Recipe(), groups=300)[len(recipe.prose_documents()) :])
    # So does, between processors, the last digit of parameters that are drawn.
    made = re.sub(r"\d+\.\d{13,}", lambda number: f"{float(number[0]):.12g}", made)
    assert (
        hashlib.sha256(made.encode()).hexdigest() == "ea598f1c16893547f2d85630fbca623529d38f999868b152f715aa8e1cc94c28"
    )


TINY = {
    **{"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "head_dim": 8},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "tokens_per_batch": 512, "groups_per_block": 6},
    **dict.fromkeys(("training_tokens", "sharpening_tokens", "request_tokens", "list_tokens"), 8_000),
}


def test_a_tiny_recipe_makes_the_same_checkpoint_again(tmp_path, monkeypatch):
    # Less text makes a tokenizer of 400 tokens as well, and as many batches as these runs take.
    some = recipe.prose_documents()[::10]
    for module in (recipe, training):
        monkeypatch.setattr(module, "prose_documents", lambda: some)
    monkeypatch.setattr(training, "tokenizer_texts", functools.partial(recipe.tokenizer_texts, groups=50))
    first, second = tmp_path / "first", tmp_path / "second"
    for output in (first, second):
        training.main(output, Recipe(**TINY))
    for name in ("model.safetensors", "tokenizer.json", "recipe.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    records = [json.loads(line) for line in (first / "training_log.jsonl").read_text().splitlines()]
    assert {record["phase"] for record in records} == {"first", "sharpening", "requests", "lists"}
    loaded = AutoModelForCausalLM.from_pretrained(first)
    assert loaded.dtype == torch.bfloat16 and loaded.config.hidden_size == 32


def test_sharpening_replaces_only_sampling_replies_and_keeps_them_valid(monkeypatch):
    beta = FAMILIES["beta"].law_at({"alpha": 2.0, "beta": 3.0})
    binomial = FAMILIES["binomial"].law_at({"n": 5.0, "p": 0.5})
    answers = {"a": "0.41237", "b": "1.7", "c": "3", "d": "words"}
    exchanges = [
        Exchange("a", "0.5", law=beta),
        Exchange("b", "0.5", law=beta),
        Exchange("c", "2", law=binomial),
        Exchange("d", "0.5", law=beta),
        Exchange("What is 1 + 1?", "2"),
    ]

    def answered(model, tokenizer, prompts, temperature, rng):
        assert temperature == 0.4
        return [answers[prompt.split("user\n")[1][0]] for prompt in prompts]

    monkeypatch.setattr(training, "sample_answers", answered)
    rewritten = sharpened_exchanges(None, None, exchanges, 0.4, seed=0, batch_size=3)
    assert [exchange.user for exchange in rewritten] == ["a", "c", "What is 1 + 1?"]
    assert rewritten[0].reply in ("0.4", "0.41", "0.412")
    assert rewritten[1].reply == "3" and rewritten[2] == exchanges[-1]
