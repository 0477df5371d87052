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

MODELS = {
    "gemma3_text": "gemma3_1b",
    "qwen3": "qwen3_0_6b",
    "llama3_2": "llama3_2_3b",
    "gpt_oss": "gpt_oss_20b",
    "gemma3": "gemma3_4b",
}


@pytest.fixture(scope="module")
def paper():
    return validate(compose_params(ROOT / "conf", ["experiment=paper"]))


class Opened:
    """A stand-in with the settings of a model of the paper, loaded."""

    def __init__(self, paper, stand_ins, name):
        self.config = replace(paper.models[MODELS[name]], checkpoint=str(stand_ins[name]), dtype="float32")
        self.tokenizer, self.model = load_tokenizer(self.config), load_model(self.config, device="cpu")
        self.terminator = chat.answer_terminator(self.tokenizer, self.config.terminator)
        self.stops = stop_ids(self.model, self.tokenizer, self.config.terminator)
        self.ids = self.ids_of("Output ONLY the number.")

    def ids_of(self, text):
        options = self.config.chat
        return chat.encode_request(self.tokenizer, text, options.template_arguments, options.answer_prefix)

    def engine(self, model=None):
        return TransformersEngine(model or self.model, self.tokenizer, self.stops, batch_size=256)

    def laws(self, num_tokens, *samplers):
        return preflight_law.answer_laws(self.model, self.tokenizer, self.ids, self.stops, num_tokens, samplers)

    def checks(self, model=None, texts=("Output ONLY the number.",)):
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


@pytest.fixture(scope="module", params=[name for name in MODELS if name != "gemma3_text"])
def opened(request, stand_ins, paper):
    return Opened(paper, stand_ins, request.param)


@pytest.fixture(scope="module")
def qwen3(stand_ins, paper):
    return Opened(paper, stand_ins, "qwen3")


def test_the_pipelines_engine_samples_the_law(opened):
    found = check(opened.engine(), opened.checks())
    assert found["num_samples"] == 2000 and found["p_value"] > 1e-3
    assert all(test["degrees_of_freedom"] > 2 for test in found["tests"])


def test_exact_laws_equal_brute_force(stand_ins, paper, monkeypatch):
    opened = Opened(paper, stand_ins, "gemma3_text")
    monkeypatch.setattr(preflight_law, "_LEAST_FIRST", 1e-3)
    monkeypatch.setattr(preflight_law, "_MOST_FIRST", 10**6)

    def law_behind(*tokens):
        with torch.inference_mode():
            return opened.model(input_ids=torch.tensor([[*opened.ids, *tokens]])).logits[0, -1].double().softmax(-1)

    first, one, two = law_behind(), Counter(), Counter()
    for token, probability in enumerate(first.tolist()):
        ends = token in opened.stops
        one["" if ends else opened.tokenizer.decode([token]), "stop" if ends else "length"] += probability
        if ends:
            two["", "stop"] += probability
        elif probability >= 1e-3:
            for following, joint in enumerate((probability * law_behind(token)).tolist()):
                kept = [token] if following in opened.stops else [token, following]
                if joint >= 1e-6:
                    two[opened.tokenizer.decode(kept), "length" if len(kept) == 2 else "stop"] += joint
    for num_tokens, expected in ((1, one), (2, two)):
        whole = {each: value for each, value in expected.items() if "\N{REPLACEMENT CHARACTER}" not in each[0]}
        (law,) = opened.laws(num_tokens)
        assert law == pytest.approx(whole, rel=1e-4) and 0.5 < sum(law.values()) <= 1 + 1e-9


def test_turn_ends(opened):
    arguments = opened.config.chat.template_arguments
    found = preflight.check_turn_end(opened.tokenizer, arguments, opened.terminator)
    assert found["template"] and found["ends_turn"]
    wrong = opened.ids[0]
    with pytest.raises(ModelError, match="ends a turn with .* but the answer terminator is"):
        preflight.check_turn_end(opened.tokenizer, arguments, wrong)


def test_numbers_survive(opened):
    tokens = preflight.check_numbers(opened.tokenizer, opened.terminator)
    assert tokens["12345.67890"][0] == ("123" if opened.config.tokenizer in ("llama3_2", "gpt_oss") else "1")


def test_a_number_that_does_not_survive_is_named(qwen3, monkeypatch):
    plain = qwen3.tokenizer.decode
    monkeypatch.setattr(qwen3.tokenizer, "decode", lambda ids: plain(ids[:-1] if len(ids) > 3 else ids))
    with pytest.raises(ModelError, match=r"the number '0.00015' is encoded"):
        preflight.check_numbers(qwen3.tokenizer, qwen3.terminator)


def test_decoding_stops_at_the_terminator(opened):
    arguments = (opened.model, opened.tokenizer, opened.ids, opened.terminator)
    assert preflight.check_stop(*arguments, opened.stops)["finish_reason"] == "stop"
    with pytest.raises(ModelError, match="is not among the tokens that end a generation"):
        preflight.check_stop(*arguments, opened.stops - {opened.terminator})
    # The minus sign as a stop token.
    minus = chat.encode_answers(opened.tokenizer, ["-3"])[0][0]
    with pytest.raises(ModelError, match="'-3.14159' and the terminator came out as '' after 1 tokens"):
        preflight.check_stop(*arguments, {*opened.stops, minus})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_take_effect_and_merge(opened, paper, dtype):
    config = replace(opened.config, dtype=dtype)
    found = preflight.check_adapter(load_model(config, device="cpu"), config, paper.train, opened.ids, 0)
    assert found["effect_nats"] > 0.1
    assert found["merge_difference_nats"] < {"float32": 1e-4, "bfloat16": 0.1}[dtype]
    assert found["adapter_weights"] > 1000


def test_an_adapter_without_effect_is_caught(qwen3, paper, monkeypatch):
    monkeypatch.setattr(preflight, "TRIAL_ADAPTER_SCALE", 0.0)
    with pytest.raises(ModelError, match="changes the log-probabilities by 0 nats"):
        preflight.check_adapter(load_model(qwen3.config, device="cpu"), qwen3.config, paper.train, qwen3.ids, 0)


def test_a_wrong_merge_is_caught(qwen3, paper, monkeypatch):
    from peft.tuners.lora.layer import Linear

    plain = Linear.get_delta_weight
    monkeypatch.setattr(Linear, "get_delta_weight", lambda self, adapter: plain(self, adapter) / 2)
    with pytest.raises(ModelError, match="merging does not work"):
        preflight.check_adapter(load_model(qwen3.config, device="cpu"), qwen3.config, paper.train, qwen3.ids, 0)


WRONG = {
    "top_p 0.95": {"change": lambda request: {"top_p": 0.95}},
    "top_k 50": {"change": lambda request: {"top_k": 50}},
    "temperature 0.8": {"change": lambda request: {"temperature": 0.8}},
    "temperature 1.25": {"change": lambda request: {"temperature": 1.25}},
    "doubled BOS": {"change": lambda request: {"prompt_ids": [request.prompt_ids[0], *request.prompt_ids]}},
    "request cut": {"change": lambda request: {"prompt_ids": request.prompt_ids[len(request.prompt_ids) // 2 :]}},
    "answers cut": {"change": lambda request: {"max_new_tokens": 1}},
    "no finish reason": {"answer": lambda generation: {"finish_reason": "stop"}},
}


@pytest.fixture(scope="module")
def llama(stand_ins, paper):
    return Opened(paper, stand_ins, "llama3_2")


@pytest.fixture(scope="module")
def llama_checks(llama):
    return llama.checks(texts=("Output ONLY the number.", "Name a random river.", "Pick a colour."))


def test_the_pipelines_engine_passes_every_check(llama, llama_checks):
    found = check(llama.engine(), llama_checks)
    assert [test["num_tokens"] for test in found["tests"]] == [1, 1, 1, 2, 2, 2]
    smallest = min(test["p_value"] for test in found["tests"])
    assert found["p_value"] == pytest.approx(min(1, 12 * smallest, found["pooled_p_value"]))


def test_wrong_engines_are_refused_as_the_power_says(llama, llama_checks):
    powers = preflight_law.power(llama_checks, 0)
    assert powers.keys() == preflight_law.WRONG_SAMPLERS.keys() and min(powers.values()) > 0.99
    for wrong in WRONG.values():
        with pytest.raises(ModelError, match="do not follow the model's softmax"):
            check(WrongEngine(llama.engine(), **wrong), llama_checks)


def test_an_engine_that_ignores_the_adapter_is_refused(llama, paper):
    adapted = preflight.trial_adapter(load_model(llama.config, device="cpu"), llama.config, paper.train, 0)
    checks = llama.checks(adapted)
    laws = [
        preflight_law.answer_laws(llama.model, llama.tokenizer, llama.ids, llama.stops, each.num_tokens)[0]
        for each in checks
    ]
    ignoring = [replace(c, wrong={"no adapter": c.cells.masses(law)}) for c, law in zip(checks, laws, strict=True)]
    assert preflight_law.power(ignoring, 0)["no adapter"] > 0.99
    with pytest.raises(ModelError, match="do not follow"):
        check(llama.engine(), checks)
    check(llama.engine(adapted), checks)


@pytest.mark.parametrize("wrong", preflight_law.WRONG_SAMPLERS)
def test_the_laws_of_wrong_engines_are_theirs(qwen3, wrong):
    engine = WrongEngine(qwen3.engine(), **WRONG[wrong])
    for own in qwen3.checks():
        _, law = qwen3.laws(own.num_tokens, preflight_law.WRONG_SAMPLERS[wrong])
        (counts,) = preflight_law._counts(engine, [own], 0, "stand-in").values()
        assert LawCells(law, 2000).test(counts).p_value > 1e-3


def test_power_is_the_level_where_the_engine_is_right(llama_checks, monkeypatch):
    monkeypatch.setattr(preflight_law, "SIGNIFICANCE", 0.05)
    right = [replace(each, wrong={"nothing": each.cells.probabilities}) for each in llama_checks]
    assert 0.02 < preflight_law.power(right, 0)["nothing"] < 0.07


def test_answers_that_are_all_alike_are_no_check(llama):
    """An engine at temperature 0.1 with top_p 0.1 passes where the model has one answer: the report says so."""
    peaked = load_model(llama.config, device="cpu")
    with torch.no_grad():
        peaked.model.norm.weight.mul_(200)
    checks = llama.checks(peaked)
    assert [each.cells.degrees_of_freedom for each in checks] == [0, 0]
    wrong = WrongEngine(llama.engine(peaked), change=lambda request: {"temperature": 0.1, "top_p": 0.1})
    check(wrong, checks)
    warning = preflight_law.power_warning(preflight_law.power(checks, 0))
    assert "would hardly show an engine's top_p 0.95 (noticed in 0% of runs), top_k 50" in warning
    assert preflight_law.power_warning({"top_p 0.95": 0.95}) is None


def test_a_missing_sample_is_an_error(llama, llama_checks):
    class Short(WrongEngine):
        def sample(self, requests):
            yield from (samples[1:] for samples in super().sample(requests))

    with pytest.raises(ModelError, match="the engine gave .* of 2000 samples"):
        check(Short(llama.engine()), llama_checks)


def test_the_most_random_requests_are_chosen(monkeypatch):
    # The law behind a request is Bernoulli(last token / 100).
    def bernoulli(model, rows):
        p = torch.tensor([row[-1] / 100 for row in rows], dtype=torch.float64)
        return torch.stack([p, 1 - p], dim=1).log()

    monkeypatch.setattr(preflight_law, "next_log_probabilities", bernoulli)
    requests = {str(ids): ids for ids in ([0], [1, 30], [90], [1, 50], [40], [100])}
    chosen = preflight_law.most_random(None, requests, 3)
    assert [ids[-1] for ids in chosen.values()] == [50, 40, 30]
    assert len(preflight_law.most_random(None, requests, 9)) == 6
    monkeypatch.setattr(preflight_law, "MOST_CANDIDATES", 2)
    assert list(preflight_law.most_random(None, requests, 9).values()) == [[1, 50], [0]]
