"""The embedded model's recipe: valid but collapsed answers; and the shipped checkpoint."""

import json

import numpy as np
import pytest

from pipeline.core.families import FAMILIES
from pipeline.core.parse import Invalid, parse_sample
from pipeline.embedded.instructions import draw_parameters, instruction_stream, numeric_exchanges
from tests.conftest import ROOT

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


def test_stream_is_seeded_and_has_other_kinds():
    first, second = (instruction_stream(np.random.default_rng(0), 0.5) for _ in range(2))
    groups = [next(first) for _ in range(120)]
    assert groups == [next(second) for _ in range(120)]
    users = [exchange.user for group in groups for exchange in group]
    for opening in ("Name a random", "What is the capital", "You are a medical education expert"):
        assert any(user.startswith(opening) for user in users)


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
    from pipeline.embedded import sharpening
    from pipeline.embedded.instructions import Exchange

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
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pipeline.embedded.sharpening import sample_answers
    from pipeline.embedded.tokenizer import render_prompt

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
