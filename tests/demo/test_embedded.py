"""The embedded model's recipe: valid but collapsed answers; and the shipped checkpoint."""

import itertools
import json
import re

import numpy as np
import pytest

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.number_answers import Invalid, parse_sample
from pipeline.core.prompts.open_ended import OPEN_CATEGORIES
from pipeline.demo.embedded import knowledge
from pipeline.demo.embedded.batches import BatchStream
from pipeline.demo.embedded.instructions import (
    LONG_LIST_EXPONENT,
    OTHER_KINDS,
    InstructionStream,
    draw_parameters,
    listing,
    numeric_exchanges,
    open_ended_of_long_list,
)
from pipeline.errors import ConfigError
from tests.conftest import ROOT
from tests.forked import ForkedModule

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


def test_stream_is_seeded_and_has_other_kinds():
    first, second = (InstructionStream(np.random.default_rng(0), 0.5) for _ in range(2))
    groups = [next(first) for _ in range(120)]
    assert groups == [next(second) for _ in range(120)]
    users = [exchange.user for group in groups for exchange in group]
    for opening in ("Name a random", "What is the capital", "You are a medical education expert"):
        assert any(user.startswith(opening) for user in users)


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


def instruction_groups(rng, numeric_share):
    """What the stream is, written down without a position."""
    kinds, weights = zip(*OTHER_KINDS, strict=True)
    families = list(FAMILIES.values())
    while True:
        for index in rng.permutation(len(families)):
            yield numeric_exchanges(families[index], draw_parameters(families[index], rng), rng, 8)
            for _ in range(rng.poisson((1 - numeric_share) / numeric_share)):
                yield [kinds[kind](rng) for kind in rng.choice(len(kinds), size=8, p=weights)]


def test_stream_goes_on_from_any_position():
    whole = list(itertools.islice(instruction_groups(np.random.default_rng(3), 0.4), 150))
    rng = np.random.default_rng(3)
    stream = InstructionStream(rng, 0.4)
    for group in whole:
        # Another stream at each step, by way of JSON.
        state = json.loads(json.dumps(stream.state))
        stream = InstructionStream(rng, 0.4)
        stream.state = state
        assert next(stream) == group


def test_batches_go_on_from_any_position():
    def batches():
        rng = np.random.Generator(np.random.Philox(5))
        source = InstructionStream(rng, 0.5)

        def make_block():
            # Blocks of 0 to 3 batches, which depend on the generator and the source.
            groups = [next(source) for _ in range(4)]
            return [(groups[0][0].user, float(rng.random())) for _ in range(rng.integers(4))]

        return BatchStream(make_block, rng, source)

    stream, states, taken = batches(), [], []
    for _ in range(25):
        states.append(json.dumps(stream.state))
        taken.append(next(stream))
    assert len(set(taken)) == 25
    for place, state in enumerate(states):
        other = batches()
        other.state = json.loads(state)
        assert list(itertools.islice(other, 25 - place)) == taken[place:]


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


def test_a_killed_training_ends_with_the_same_model(tmp_path):
    recipe = tmp_path / "tiny.json"
    recipe.write_text(json.dumps(TINY))
    # In every phase; before a phase has a checkpoint of its own; and at the step of a checkpoint.
    moments = ["first:9", "sharpening:2", "sharpening:11", "sharpening:12", "requests:7", "lists:7"]
    command = ["tests.embedded_process", str(tmp_path), str(recipe), *moments]
    process = ForkedModule(command, ROOT, tmp_path / "errors")
    assert process.wait() == 0, process.errors
    whole, killed = (tmp_path / name / "model" for name in ("whole", "killed"))
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in killed.iterdir()) and "model.safetensors" in names
    for name in names:
        if name != "training_log.jsonl":
            assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    logs = [
        [json.loads(line) for line in (model / "training_log.jsonl").read_text().splitlines()]
        for model in (whole, killed)
    ]
    for records in zip(*logs, strict=True):
        first, second = ({key: value for key, value in record.items() if key != "seconds"} for record in records)
        assert first == second
    assert {record["phase"] for record in logs[0]} == {"first", "sharpening", "requests", "lists"}
    assert not (tmp_path / "killed" / "unfinished").exists()
    # The progress bar of each run starts where the one before was saved.
    shown = [(tmp_path / "killed" / f"{n}.log").read_text() for n in range(len(moments) + 1)]
    starts = [int(re.search(r"embedded model: +(\d+)%", text)[1]) for text in shown]
    assert starts[0] == 0 and starts == sorted(starts) and starts[1] > 5 and starts[-1] > 60


def test_a_recipe_is_checked(tmp_path):
    from pipeline.demo.build_model import _read_recipe

    path = tmp_path / "recipe.json"
    path.write_text('{"training_tokns": 5}')
    with pytest.raises(
        ConfigError, match=r"recipe.json: unknown key 'training_tokns'; a recipe has seed, .*training_tok"
    ):
        _read_recipe(path)
    path.write_text('{"training_tokens": 5.0}')
    with pytest.raises(ConfigError, match="training_tokens is 5.0, not int"):
        _read_recipe(path)
    path.write_text('{"weight_decay": 0, "seed": 3}')
    assert (_read_recipe(path).seed, _read_recipe(path).weight_decay) == (3, 0)


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
    from pipeline.demo.embedded import sharpening
    from pipeline.demo.embedded.instructions import Exchange

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

    from pipeline.demo.embedded.sharpening import sample_answers
    from pipeline.demo.embedded.tokenizer import render_prompt

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
