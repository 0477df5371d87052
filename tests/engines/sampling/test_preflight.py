"""Preflight's checks pass on sound models and engines and stop each kind of broken one."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.core.statistics.law_check import LawCells
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling import preflight, preflight_law
from pipeline.engines.sampling.transformers_engine import TransformersEngine
from pipeline.errors import ModelError
from tests.conftest import ROOT

MODELS = {"qwen3": "qwen3_0_6b", "llama3_2": "llama3_2_3b", "gpt_oss": "gpt_oss_20b", "gemma3": "gemma3_4b"}
TEXTS = ("Output ONLY the number.", "Name a random river.", "Pick a colour.")


class Opened:
    """A stand-in with the settings of a model of the paper, loaded."""

    def __init__(self, paper, stand_ins, name):
        self.config = replace(paper.models[MODELS[name]], checkpoint=str(stand_ins[name]), dtype="float32")
        self.tokenizer, self.model = load_tokenizer(self.config), load_model(self.config, device="cpu")
        self.terminator = chat.answer_terminator(self.tokenizer, self.config.terminator)
        self.stops = stop_ids(self.model, self.tokenizer, self.config.terminator)
        self.ids = self.ids_of(TEXTS[0])

    def ids_of(self, text):
        return chat.request_encoder(self.tokenizer, self.config)(text)

    def engine(self, model=None):
        return TransformersEngine(model or self.model, self.tokenizer, self.stops, batch_size=256)

    def checks(self, model=None, texts=TEXTS):
        requests = {text: self.ids_of(text) for text in texts}
        return preflight_law.law_checks(model or self.model, self.tokenizer, requests, self.stops)


class WrongEngine:
    """An engine that changes requests before it samples them, or answers behind that."""

    def __init__(self, engine, change=lambda request: {}, answer=lambda generation: {}):
        self.engine, self.change, self.answer = engine, change, answer

    def sample(self, requests):
        for samples in self.engine.sample([replace(request, **self.change(request)) for request in requests]):
            yield [
                replace(sample, generation=replace(sample.generation, **self.answer(sample.generation)))
                for sample in samples
            ]


def check(engine, checks):
    return preflight_law.check_laws(engine, checks, seed=0, model="stand-in")


@pytest.fixture(scope="module")
def paper():
    return validate(compose_params(ROOT / "conf", ["experiment=paper"]))


@pytest.fixture(scope="module", params=MODELS)
def opened(request, stand_ins, paper):
    return Opened(paper, stand_ins, request.param)


@pytest.fixture(scope="module")
def llama(stand_ins, paper):
    return Opened(paper, stand_ins, "llama3_2")


@pytest.fixture(scope="module")
def llama_checks(llama):
    return llama.checks()


def test_the_pipelines_engine_samples_the_law(opened):
    found = check(opened.engine(), opened.checks())
    assert found["num_samples"] == 2000 and found["p_value"] > 1e-3
    assert found["p_value"] == min(1, 4 * min(found["p_value_together"], *found["p_values"].values()))


def test_turn_ends_and_numbers(opened):
    arguments = opened.config.chat.template_arguments
    preflight.check_turn_end(opened.tokenizer, arguments, opened.terminator)
    with pytest.raises(ModelError, match="ends a turn with .* but the answer terminator is"):
        preflight.check_turn_end(opened.tokenizer, arguments, opened.ids[0])
    preflight.check_numbers(opened.tokenizer, opened.terminator)


def test_a_number_that_does_not_survive_is_named(llama, monkeypatch):
    plain = llama.tokenizer.decode
    monkeypatch.setattr(llama.tokenizer, "decode", lambda ids: plain(ids[:-1] if len(ids) > 3 else ids))
    with pytest.raises(ModelError, match=r"the number '0.00015' is encoded"):
        preflight.check_numbers(llama.tokenizer, llama.terminator)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_take_effect(opened, paper, monkeypatch, dtype):
    config = replace(opened.config, dtype=dtype)
    found = preflight.check_adapter(load_model(config, device="cpu"), config, paper.train, opened.ids, 0)
    assert found["effect_nats"] > 0.1
    monkeypatch.setattr(preflight, "TRIAL_ADAPTER_SCALE", 0.0)
    with pytest.raises(ModelError, match="changes the log-probabilities by 0 nats"):
        preflight.check_adapter(load_model(config, device="cpu"), config, paper.train, opened.ids, 0)


WRONG = {
    "top_p 0.95": {"change": lambda request: {"top_p": 0.95}},
    "top_k 50": {"change": lambda request: {"top_k": 50}},
    "temperature 0.8": {"change": lambda request: {"temperature": 0.8}},
    "temperature 1.25": {"change": lambda request: {"temperature": 1.25}},
    "doubled BOS": {"change": lambda request: {"prompt_ids": [request.prompt_ids[0], *request.prompt_ids]}},
    "request cut": {"change": lambda request: {"prompt_ids": request.prompt_ids[len(request.prompt_ids) // 2 :]}},
    "no finish reason": {"answer": lambda generation: {"finish_reason": "stop"}},
}


def test_wrong_engines_are_refused_as_the_power_says(llama, llama_checks):
    powers = preflight_law.power(llama_checks)
    assert powers.keys() == preflight_law.WRONG_SAMPLERS.keys() and min(powers.values()) > 0.99
    for wrong in WRONG.values():
        with pytest.raises(ModelError, match="do not follow the model's softmax"):
            check(WrongEngine(llama.engine(), **wrong), llama_checks)


def test_the_power_is_the_share_of_runs_that_notice(llama_checks, monkeypatch):
    """Where it is neither 0 nor 1: of a temperature near 1, by draws from its law."""
    one = llama_checks[0]
    tokens = {outcome: mass**0.93 for outcome, mass in one.law.items()}
    near = {outcome: mass / sum(tokens.values()) * sum(one.law.values()) for outcome, mass in tokens.items()}
    monkeypatch.setattr(preflight_law, "SIGNIFICANCE", 0.05)
    predicted = preflight_law.power([replace(one, wrong={"near": near})])["near"]
    outcomes, rest = list(near), max(1 - sum(near.values()), 0.0)
    generator = torch.Generator().manual_seed(0)
    noticed = 0
    for _ in range(200):
        drawn = torch.multinomial(torch.tensor([*near.values(), rest]), 2000, True, generator=generator)
        counts = Counter(outcomes[place] if place < len(outcomes) else None for place in drawn.tolist())
        noticed += one.cells.p_value(counts) < 0.025
    assert 0.1 < predicted < 0.95 and abs(noticed / 200 - predicted) < 0.15


def test_an_engine_that_ignores_the_adapter_is_refused(llama, paper):
    adapted = preflight.trial_adapter(load_model(llama.config, device="cpu"), llama.config, paper.train, 0)
    checks = llama.checks(adapted)
    with pytest.raises(ModelError, match="do not follow"):
        check(llama.engine(), checks)
    check(llama.engine(adapted), checks)


@pytest.mark.parametrize("wrong", preflight_law.WRONG_SAMPLERS)
def test_the_laws_of_wrong_engines_are_theirs(llama, llama_checks, wrong):
    law = llama_checks[0].wrong[wrong]
    requests = [replace(llama_checks[0], law=law, cells=LawCells(law, preflight_law.NUM_SAMPLES))]
    assert check(WrongEngine(llama.engine(), **WRONG[wrong]), requests)["p_value"] > 1e-3


def test_answers_that_are_all_alike_are_no_check(llama):
    """An engine at temperature 0.1 with top_p 0.1 passes where the model has one answer: the report says so."""
    peaked = load_model(llama.config, device="cpu")
    with torch.no_grad():
        peaked.model.norm.weight.mul_(200)
    checks = llama.checks(peaked, texts=TEXTS[:1])
    wrong = WrongEngine(llama.engine(peaked), change=lambda request: {"temperature": 0.1, "top_p": 0.1})
    check(wrong, checks)
    warning = preflight_law.power_warning(preflight_law.power(checks))
    assert "would hardly show an engine's top_p 0.95 (noticed in 0% of runs), top_k 50" in warning
    assert preflight_law.power_warning({"top_p 0.95": 0.95}) is None
