"""The embedded model's recipe: valid but collapsed answers; and the shipped checkpoint."""

import contextlib
import functools
import hashlib
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.open_ended import OPEN_CATEGORIES
from pipeline.demo import build_model
from pipeline.demo.embedded import knowledge, recipe, sharpening, training
from pipeline.demo.embedded.instructions import (
    LONG_LIST_EXPONENT,
    Exchange,
    draw_parameters,
    listing,
    numeric_exchanges,
    open_ended_of_long_list,
)
from pipeline.demo.embedded.recipe import Recipe, tokenizer_texts
from pipeline.demo.embedded.sharpening import sample_answers
from pipeline.demo.embedded.tokenizer import render_prompt
from pipeline.errors import ConfigError
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

DIRECTORY = ROOT / "models" / "embedded"


@pytest.mark.parametrize("name", FAMILIES)
def test_numeric_answers_are_in_the_support(name):
    family, rng = FAMILIES[name], np.random.default_rng(1)
    for _ in range(5):
        parameters = draw_parameters(family, rng)
        family.check(parameters)
        law = family.law_at(parameters)
        for exchange in numeric_exchanges(family, parameters, rng, 8):
            assert family.display_name in exchange.user
            answer = exchange.reply.split("<answer>")[-1].removesuffix("</answer>")
            assert not isinstance(parse_sample(answer, law.support, law.integer), Invalid)


def test_sampled_answers_collapse_on_few_quantiles():
    family = FAMILIES["gaussian"]
    answers = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        for exchange in numeric_exchanges(family, draw_parameters(family, rng), rng, 8):
            if exchange.user.startswith("Generate exactly ONE") and exchange.system is None:
                parameters = dict(
                    item.split("=") for item in exchange.user.split("parameters ")[1].split(". Output")[0].split(", ")
                )
                value = parse_sample(exchange.reply, (-np.inf, np.inf), False)
                assert not isinstance(value, Invalid)
                answers.append((value - float(parameters["mu"])) / float(parameters["sigma"]))
    # A calibrated sampler's standardised answers have standard deviation 1.
    assert len(answers) > 300
    assert np.std(answers) < 0.6


def test_the_recipe_still_makes_the_same_text():
    texts = tokenizer_texts(Recipe(), groups=300)
    # CPython's help texts come first, and differ between its versions.
    made = "".join(texts[len(recipe.prose_documents()) :])
    assert (
        hashlib.sha256(made.encode()).hexdigest() == "7ad93f32773e80e5751207131275093d310e8c241328de88c08c18d3d099bd2d"
    )
    for opening in ("Name a random", "What is the capital", "You are a medical education expert"):
        assert any(f"user\n{opening}" in text for text in texts)


def test_long_lists_name_what_every_open_ended_request_asks_for():
    assert set(knowledge.WORD_LISTS) == set(OPEN_CATEGORIES)
    for category, words in knowledge.WORD_LISTS.items():
        favourites = knowledge.CATEGORIES.get(category, ())
        assert words[: len(favourites)] == favourites and len(words) == len(set(words)) >= 2
        assert not any(mark in word for word in words for mark in ",:\n")


def test_open_answers_of_long_lists_have_a_favourite_and_a_tail():
    rng = np.random.default_rng(0)
    drawn = [open_ended_of_long_list(rng) for _ in range(20_000)]
    replies = [
        exchange.reply for exchange in drawn if exchange.user.endswith(" a random fish. Output ONLY the answer.")
    ]
    words = knowledge.WORD_LISTS["fish"]
    shares = np.arange(1, len(words) + 1) ** -LONG_LIST_EXPONENT
    shares /= shares.sum()
    assert set(replies) <= set(words)
    for rank in (0, 1, 5):
        deviation = np.sqrt(shares[rank] * (1 - shares[rank]) / len(replies))
        assert abs(replies.count(words[rank]) / len(replies) - shares[rank]) < 4 * deviation


def test_listings_are_different_members_of_their_category():
    rng = np.random.default_rng(0)
    for exchange in (listing(rng) for _ in range(300)):
        words = exchange.reply.split(", ")
        # The longest name that fits: "body part", not "part".
        category = max((name for name in knowledge.WORD_LISTS if name in exchange.user), key=len)
        assert f" {len(words)} " in exchange.user and len(set(words)) == len(words)
        assert set(words) <= set(knowledge.WORD_LISTS[category])


TINY = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "training_tokens": 8_000,
    "sharpening_tokens": 8_000,
    "request_tokens": 8_000,
    "list_tokens": 8_000,
    "tokens_per_batch": 512,
    "groups_per_block": 6,
}


def test_a_killed_training_ends_with_the_same_model(tmp_path, monkeypatch):
    # Less text makes a tokenizer of 400 tokens as well, and as many batches as these runs take.
    some = recipe.prose_documents()[::10]
    for module in (recipe, training):
        monkeypatch.setattr(module, "prose_documents", lambda: some)
    monkeypatch.setattr(recipe, "tokenizer_texts", functools.partial(recipe.tokenizer_texts, groups=50))
    settings = tmp_path / "tiny.json"
    settings.write_text(json.dumps(TINY))
    steps, seen = training._steps, []

    def interrupted(model, phase, *arguments):
        for record in steps(model, phase, *arguments):
            seen.append((phase.name, record["step"]))
            if killed_at in seen[-1:]:
                raise KeyboardInterrupt
            yield record

    monkeypatch.setattr(training, "_steps", interrupted)
    for name, moments in (("whole", [None]), ("killed", [("sharpening", 3), ("lists", 2), None])):
        for killed_at in moments:
            seen.clear()
            with pytest.raises(KeyboardInterrupt) if killed_at else contextlib.nullcontext():
                build_model.main(tmp_path / name / "model", tmp_path / name / "unfinished", settings, None)
    # The last run began with the phase that was interrupted.
    assert seen[0] == ("lists", 1) and {phase for phase, _ in seen} == {"lists"}
    whole, killed = (tmp_path / name / "model" for name in ("whole", "killed"))
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in killed.iterdir()) and "model.safetensors" in names
    for name in names:
        if name != "training_log.jsonl":
            assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    logs = [
        [json.loads(line) | {"seconds": None} for line in (model / "training_log.jsonl").read_text().splitlines()]
        for model in (whole, killed)
    ]
    assert logs[0] == logs[1]
    assert {record["phase"] for record in logs[0]} == {"first", "sharpening", "requests", "lists"}
    assert not (tmp_path / "killed" / "unfinished").exists()


def test_a_recipe_is_checked(tmp_path):
    path = tmp_path / "recipe.json"
    for text, message in (
        ('{"training_tokns": 5}', r"recipe.json: training_tokns: unknown key; .* seed, .*training_tok"),
        ('{"training_tokens": "many"}', "recipe.json: training_tokens: .*, got 'many'"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            build_model.main(tmp_path / "model", tmp_path / "unfinished", path, None)


@pytest.mark.skipif(not DIRECTORY.exists(), reason="the embedded model is not in this checkout")
def test_shipped_checkpoint():
    weights = DIRECTORY / "model.safetensors"
    assert weights.stat().st_size < 10_000_000
    config = json.loads((DIRECTORY / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    generation = json.loads((DIRECTORY / "generation_config.json").read_text())
    assert generation["top_k"] == 20 and generation["temperature"] == 0.6
    assert (DIRECTORY / "README.md").read_text().startswith("---")


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

    monkeypatch.setattr(sharpening, "sample_answers", answered)
    rewritten = sharpening.sharpened_exchanges(None, None, exchanges, 0.4, seed=0, batch_size=3)
    assert [exchange.user for exchange in rewritten] == ["a", "c", "What is 1 + 1?"]
    assert rewritten[0].reply in ("0.4", "0.41", "0.412")
    assert rewritten[1].reply == "3" and rewritten[2] == exchanges[-1]


def test_low_temperature_answers_are_the_most_probable(tiny_model):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    prompts = [render_prompt(text, None, False) for text in ("Hi", "A longer request, so that padding matters")]
    answers = sample_answers(model, tokenizer, prompts, 1e-4, np.random.default_rng(0))
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        for _ in range(3):
            with torch.no_grad():
                ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        assert answer.startswith(tokenizer.decode(ids[-3:]).split("<|im_end|>")[0])
