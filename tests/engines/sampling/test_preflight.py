"""Preflight's checks pass on sound models and engines and stop each kind of broken one."""

from collections import Counter
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import LawCells
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling import preflight, preflight_law
from pipeline.engines.sampling.transformers_engine import TransformersEngine
from pipeline.errors import ModelError
from tests.conftest import ROOT

MODELS = {"qwen3": "qwen3_0_6b", "llama3_2": "llama3_2_3b", "gpt_oss": "gpt_oss_20b", "gemma3": "gemma3_4b"}
MESSAGES = [{"role": "user", "content": "Output ONLY the number."}]


@pytest.fixture(scope="module")
def paper():
    return validate(compose_params(ROOT / "conf", ["experiment=paper"]))


class Opened:
    """A stand-in, loaded."""

    def __init__(self, config):
        self.config, self.tokenizer = config, load_tokenizer(config)
        self.model = load_model(config, device="cpu")
        self.terminator = chat.answer_terminator(self.tokenizer, config.terminator)
        self.stops = stop_ids(self.model, self.tokenizer, config.terminator)
        self.ids = chat.encode_messages(
            self.tokenizer, MESSAGES, config.chat.template_arguments, config.chat.answer_prefix
        )

    @property
    def request(self):
        return preflight_law.ChatRequest("number", self.ids, MESSAGES)

    def engine(self, model=None):
        return TransformersEngine(model or self.model, self.tokenizer, self.stops, batch_size=256, strategy="merged")

    def laws(self, num_tokens, *samplers):
        return preflight_law.answer_laws(self.model, self.tokenizer, self.ids, self.stops, num_tokens, samplers)

    def requests(self):
        texts = ("Output ONLY the number.", "Name a random river.", "Pick a colour.")
        messages = [[{"role": "user", "content": text}] for text in texts]
        arguments, prefix = self.config.chat.template_arguments, self.config.chat.answer_prefix
        return [
            preflight_law.ChatRequest(f"{i}", chat.encode_messages(self.tokenizer, asked, arguments, prefix), asked)
            for i, asked in enumerate(messages)
        ]

    def checks(self, model=None, requests=None):
        return preflight_law.law_checks(model or self.model, self.tokenizer, requests or [self.request], self.stops)

    @cached_property
    def own_checks(self):
        return {check.num_tokens: check for check in self.checks()}

    def check(self, engine, num_tokens):
        check = self.own_checks[num_tokens]
        return preflight_law.check_laws(engine, [check], seed=0, model="stand-in")


class WrongEngine:
    """An engine that changes requests before it samples them, or answers behind that."""

    def __init__(self, engine, change=lambda request: {}, answer=lambda generation: {}):
        self.engine, self.change, self.answer = engine, change, answer

    def sample(self, requests):
        changed = [replace(request, **self.change(request)) for request in requests]
        for samples in self.engine.sample(changed):
            yield [replace(sample, generation=self._answer(sample.generation)) for sample in samples]

    def _answer(self, generation):
        return replace(generation, **self.answer(generation))


@pytest.fixture(scope="module", params=MODELS)
def opened(request, stand_ins, paper):
    return Opened(
        replace(paper.models[MODELS[request.param]], checkpoint=str(stand_ins[request.param]), dtype="float32")
    )


@pytest.fixture(scope="module")
def qwen3(stand_ins, paper):
    return Opened(replace(paper.models["qwen3_0_6b"], checkpoint=str(stand_ins["qwen3"]), dtype="float32"))


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_the_pipelines_engine_samples_the_law(opened, num_tokens):
    found = opened.check(opened.engine(), num_tokens)
    (test,) = found["tests"]
    assert found["num_samples"] == 2000 and test["degrees_of_freedom"] > 2 and found["p_value"] > 1e-3


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_exact_laws_equal_brute_force(stand_ins, paper, num_tokens, monkeypatch):
    opened = Opened(replace(paper.models["gemma3_1b"], checkpoint=str(stand_ins["gemma3_text"]), dtype="float32"))
    monkeypatch.setattr(preflight_law, "_LEAST_FIRST", 1e-3)
    monkeypatch.setattr(preflight_law, "_MOST_FIRST", 10**6)
    (law,) = opened.laws(num_tokens)
    with torch.inference_mode():
        first = opened.model(input_ids=torch.tensor([opened.ids])).logits[0, -1].double().softmax(-1)
    expected = {}
    for token in range(len(first)) if num_tokens == 1 else torch.nonzero(first >= 1e-3)[:, 0].tolist():
        if token in opened.stops:
            continue
        if num_tokens == 1:
            outcome = (opened.tokenizer.decode([token]), "length")
            expected[outcome] = expected.get(outcome, 0.0) + first[token].item()
            continue
        with torch.inference_mode():
            second = opened.model(input_ids=torch.tensor([[*opened.ids, token]])).logits[0, -1].double().softmax(-1)
        for following in torch.nonzero(first[token] * second >= 1e-6)[:, 0].tolist():
            stopped = following in opened.stops
            text = opened.tokenizer.decode([token] if stopped else [token, following])
            outcome = (text, "stop" if stopped else "length")
            expected[outcome] = expected.get(outcome, 0.0) + (first[token] * second[following]).item()
    expected[("", "stop")] = first[sorted(opened.stops)].sum().item()
    expected = {outcome: value for outcome, value in expected.items() if "\N{REPLACEMENT CHARACTER}" not in outcome[0]}
    assert law == pytest.approx(expected, rel=1e-4) and 0.5 < sum(law.values()) <= 1 + 1e-9


def test_turn_ends(opened):
    arguments = opened.config.chat.template_arguments
    found = preflight.check_turn_end(opened.tokenizer, arguments, opened.terminator)
    assert found["template"] and found["terminator_id"] == opened.terminator
    wrong = opened.ids[0]
    with pytest.raises(ModelError, match="ends a turn with .* but the answer terminator is"):
        preflight.check_turn_end(opened.tokenizer, arguments, wrong)


def test_gemmas_eos_is_not_its_turn_end(stand_ins, paper):
    tokenizer = load_tokenizer(replace(paper.models["gemma3_4b"], checkpoint=str(stand_ins["gemma3"])))
    with pytest.raises(ModelError, match="ends a turn with '<end_of_turn>', but the answer terminator is '<eos>'"):
        preflight.check_turn_end(tokenizer, {}, chat.answer_terminator(tokenizer, "eos"))
    found = preflight.check_turn_end(tokenizer, {}, chat.answer_terminator(tokenizer, "eos"), another_allowed=True)
    assert found["terminator"] == "<eos>" and not found["ends_turn"]


def test_a_tokenizer_without_a_template_has_no_turns(opened):
    plain = load_tokenizer(opened.config)
    plain.chat_template = None
    assert not preflight.check_turn_end(plain, {}, opened.terminator)["template"]


def test_requests_are_shown(opened):
    shown = preflight.show_request(opened.tokenizer, opened.ids)
    assert [token_id for token_id, _ in shown["tokens"]] == opened.ids
    assert shown["bos_tokens"] == (chat.text_bos(opened.tokenizer) is not None)


def test_numbers_survive(opened):
    tokens = preflight.check_numbers(opened.tokenizer, opened.terminator)
    assert tokens["12345.67890"][0] == ("123" if opened.config.tokenizer in ("llama3_2", "gpt_oss") else "1")


def test_a_number_that_does_not_survive_is_named(qwen3):
    class Rounding:
        """A tokenizer that reads numbers back without their last digit."""

        all_special_ids, name_or_path = (), "rounding"

        def __call__(self, texts, **settings):
            return qwen3.tokenizer(texts, **settings)

        def decode(self, ids):
            return qwen3.tokenizer.decode(ids[:-1] if len(ids) > 3 else ids)

        def convert_ids_to_tokens(self, ids):
            return qwen3.tokenizer.convert_ids_to_tokens(ids)

    with pytest.raises(ModelError, match=r"rounding: the number '0.00015' is encoded"):
        preflight.check_numbers(Rounding(), qwen3.terminator)


def test_decoding_stops_at_the_terminator(opened):
    arguments = (opened.model, opened.tokenizer, opened.ids, opened.terminator)
    assert preflight.check_stop(*arguments, opened.stops)["finish_reason"] == "stop"
    with pytest.raises(ModelError, match="is not among the tokens that end a generation"):
        preflight.check_stop(*arguments, opened.stops - {opened.terminator})
    # The minus sign as a stop token.
    minus = chat.encode_answers(opened.tokenizer, ["-3"])[0][0]
    with pytest.raises(ModelError, match="'-3.14159' and the terminator came out as '' after 1 tokens"):
        preflight.check_stop(*arguments, {*opened.stops, minus})


def test_endings(opened):
    common = {"seed": 0, "model": "stand-in"}
    requests = [opened.request, replace(opened.request, key="again")]
    found = preflight_law.check_endings(opened.engine(), opened.tokenizer, requests, opened.stops, **common)
    assert found["num_samples"] == 16 and 0 < found["longest"] <= 48
    deaf = TransformersEngine(opened.model, opened.tokenizer, {-1}, batch_size=32, strategy="rows")
    # What the model often says counts as a stop token, and the engine does not stop there.
    often = (
        torch.bincount(
            torch.tensor(
                [
                    token
                    for answer in preflight_law._samples(deaf, {"e": opened.request}, 32, 48, 0, "stand-in")["e"]
                    for token in opened.tokenizer(answer.text, add_special_tokens=False)["input_ids"]
                ]
            )
        )
        .argmax()
        .item()
    )
    with pytest.raises(ModelError, match="went on behind the stop token"):
        preflight_law.check_endings(deaf, opened.tokenizer, [opened.request], {often}, **common)
    short = WrongEngine(deaf, change=lambda request: {"max_new_tokens": 16})
    with pytest.raises(ModelError, match="an answer of 16 tokens has the finish reason 'length' where at most 48"):
        preflight_law.check_endings(short, opened.tokenizer, [opened.request], opened.stops, **common)


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


def test_rounding_is_no_reason_to_refuse_and_a_cut_is():
    """bfloat16's tolerance: probabilities off by a tenth pass, a nucleus of 95% or another temperature do not."""
    rng = random_stream(0, "rounding")
    error = preflight_law.RELATIVE_ERROR["bfloat16"]
    law = np.sort(rng.dirichlet(np.full(400, 0.05)))[::-1]

    def p_value(engine, tolerance):
        counts = Counter(rng.choice(len(law), size=2000, p=engine / engine.sum()).tolist())
        return LawCells(dict(enumerate(law.tolist())), 2000).test(counts, tolerance).p_value

    rounded = [law * np.exp(rng.normal(0, error, len(law))) for _ in range(40)]
    assert min(p_value(engine, error) for engine in rounded) > preflight_law.SIGNIFICANCE
    cells = LawCells(dict(enumerate(law.tolist())), 2000)
    for wrong, least in ((np.where(law.cumsum() - law < 0.95, law, 0), 0.85), (law ** (1 / 0.6), 1)):
        sampled = cells.masses(dict(enumerate((wrong / wrong.sum()).tolist())))
        p_values = cells.p_values(cells.draw(sampled, 400, rng), error)
        assert (p_values < preflight_law.SIGNIFICANCE).mean() >= least
    # Outcomes that cannot be are refused with a tolerance, too.
    cells = LawCells({"a": 0.5, "b": 0.5}, 2000)
    assert cells.test(Counter({"a": 1000, "b": 990, "nonsense": 10}), error).p_value < 1e-10


WRONG = {
    "cut": {"change": lambda request: {"top_p": 0.95}},
    "cut to 50 tokens": {"change": lambda request: {"top_k": 50}},
    "sharpened": {"change": lambda request: {"temperature": 0.8}},
    "flattened": {"change": lambda request: {"temperature": 1.25}},
    "doubled BOS": {"change": lambda request: {"prompt_ids": [request.prompt_ids[0], *request.prompt_ids]}},
    "request cut": {"change": lambda request: {"prompt_ids": request.prompt_ids[len(request.prompt_ids) // 2 :]}},
    "answers cut": {"change": lambda request: {"max_new_tokens": 1}},
    "no finish reason": {"answer": lambda generation: {"finish_reason": "stop"}},
}
NAMES = {
    "cut": "top_p 0.95",
    "cut to 50 tokens": "top_k 50",
    "sharpened": "temperature 0.8",
    "flattened": "temperature 1.25",
    "doubled BOS": preflight_law.DOUBLED_BOS,
}


@pytest.fixture(scope="module")
def llama(stand_ins, paper):
    return Opened(replace(paper.models["llama3_2_3b"], checkpoint=str(stand_ins["llama3_2"]), dtype="float32"))


@pytest.fixture(scope="module")
def llama_checks(llama):
    return llama.checks(requests=llama.requests())


def test_the_pipelines_engine_passes_every_check(llama, llama_checks):
    found = preflight_law.check_laws(llama.engine(), llama_checks, seed=0, model="stand-in")
    assert [test["num_tokens"] for test in found["tests"]] == [1, 1, 1, 2, 2, 2]
    smallest = min(test["p_value"] for test in found["tests"])
    assert found["p_value"] == pytest.approx(min(1, 12 * smallest, found["pooled_p_value"]))


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_engines_are_refused_as_the_power_says(llama, llama_checks, wrong):
    checks = llama_checks
    if wrong in NAMES:
        own = [replace(check, wrong={wrong: check.wrong[NAMES[wrong]]}) for check in checks]
        assert preflight_law.power(own, 0)[wrong] > 0.99
    with pytest.raises(ModelError, match="do not follow the model's softmax"):
        preflight_law.check_laws(WrongEngine(llama.engine(), **WRONG[wrong]), checks, seed=0, model="stand-in")


def test_an_engine_that_ignores_the_adapter_is_refused(llama, paper):
    adapted = preflight.trial_adapter(load_model(llama.config, device="cpu"), llama.config, paper.train, 0)
    checks = llama.checks(adapted)
    laws = [
        preflight_law.answer_laws(llama.model, llama.tokenizer, llama.ids, llama.stops, check.num_tokens)[0]
        for check in checks
    ]
    ignoring = [replace(c, wrong={"no adapter": c.cells.masses(law)}) for c, law in zip(checks, laws, strict=True)]
    assert preflight_law.power(ignoring, 0)["no adapter"] > 0.99
    with pytest.raises(ModelError, match="do not follow"):
        preflight_law.check_laws(llama.engine(), checks, seed=0, model="stand-in")
    preflight_law.check_laws(llama.engine(adapted), checks, seed=0, model="stand-in")


@pytest.mark.parametrize("wrong", [name for name in NAMES if name != "doubled BOS"])
@pytest.mark.parametrize("num_tokens", [1, 2])
def test_the_laws_of_wrong_engines_are_theirs(qwen3, wrong, num_tokens):
    sampler = preflight_law.WRONG_SAMPLERS[NAMES[wrong]]
    _, law = qwen3.laws(num_tokens, sampler)
    engine = WrongEngine(qwen3.engine(), **WRONG[wrong])
    answers = preflight_law._samples(engine, {"w": qwen3.request}, 2000, num_tokens, 0, "stand-in")["w"]
    counts = Counter((answer.text, answer.finish_reason) for answer in answers)
    assert LawCells(law, 2000).test(counts).p_value > 1e-3


def test_power_is_the_level_where_the_engine_is_right(llama_checks, monkeypatch):
    monkeypatch.setattr(preflight_law, "SIGNIFICANCE", 0.05)
    right = [replace(check, wrong={"nothing": check.cells.probabilities}) for check in llama_checks]
    assert 0.02 < preflight_law.power(right, 0)["nothing"] < 0.07


def test_answers_that_are_all_alike_are_no_check(llama):
    """An engine at temperature 0.1 with top_p 0.1 passes where the model has one answer: the report says so."""
    peaked = load_model(llama.config, device="cpu")
    with torch.no_grad():
        peaked.model.norm.weight.mul_(200)
    checks = llama.checks(peaked)
    assert [check.cells.degrees_of_freedom for check in checks] == [0, 0]
    wrong = WrongEngine(llama.engine(peaked), change=lambda request: {"temperature": 0.1, "top_p": 0.1})
    preflight_law.check_laws(wrong, checks, seed=0, model="stand-in")
    warning = preflight_law.power_warning(preflight_law.power(checks, 0))
    assert "would hardly show an engine's top_p 0.95 (noticed in 0% of runs), top_k 50" in warning
    assert preflight_law.power_warning({"top_p 0.95": 0.95}) is None


def test_a_missing_sample_is_an_error(llama, llama_checks):
    class Short(WrongEngine):
        def sample(self, requests):
            yield from (samples[1:] for samples in super().sample(requests))

    with pytest.raises(ModelError, match="the engine gave .* of 2000 samples"):
        preflight_law.check_laws(Short(llama.engine()), llama_checks, seed=0, model="stand-in")


def test_the_most_random_requests_are_chosen(monkeypatch):
    # The law behind a request is Bernoulli(last token / 100); requests have one or two tokens.
    def bernoulli(model, rows):
        assert len({len(row) for row in rows}) == 1
        p = torch.tensor([row[-1] / 100 for row in rows], dtype=torch.float64)
        return torch.stack([p, 1 - p], dim=1).log()

    monkeypatch.setattr(preflight_law, "next_log_probabilities", bernoulli)
    requests = [preflight_law.ChatRequest(str(ids), ids, []) for ids in ([0], [1, 30], [90], [1, 50], [40], [100])]
    chosen = preflight_law.most_random(None, requests, 3)
    assert [request.prompt_ids[-1] for request in chosen] == [50, 40, 30]
    assert len(preflight_law.most_random(None, requests, 9)) == 6
    monkeypatch.setattr(preflight_law, "MOST_CANDIDATES", 2)
    assert [request.prompt_ids for request in preflight_law.most_random(None, requests, 9)] == [[1, 50], [0]]
