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
