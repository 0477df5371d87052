"""Preflight's checks pass on sound models and engines and stop each kind of broken one."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import TopKLogitsWarper

from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import compare_with_law
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import load_model, load_tokenizer, stop_ids
from pipeline.engines.sampling import preflight, preflight_law
from pipeline.engines.sampling.generate import Generation
from pipeline.engines.sampling.text_engine import Sample
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

    def engine(self):
        return TransformersEngine(self.model, self.tokenizer, self.stops, batch_size=256, strategy="merged")

    def law(self, num_tokens):
        return preflight_law.answer_law(self.model, self.tokenizer, self.ids, self.stops, num_tokens)

    def check(self, engine, num_tokens, **settings):
        common = {"num_tokens": num_tokens, "seed": 0, "model": "stand-in"} | settings
        return preflight_law.check_law(engine, self.law(num_tokens), self.ids, MESSAGES, **common)


@pytest.fixture(scope="module", params=MODELS)
def opened(request, stand_ins, paper):
    return Opened(
        replace(paper.models[MODELS[request.param]], checkpoint=str(stand_ins[request.param]), dtype="float32")
    )


@pytest.fixture
def qwen3(stand_ins, paper):
    return Opened(replace(paper.models["qwen3_0_6b"], checkpoint=str(stand_ins["qwen3"]), dtype="float32"))


class GenerateEngine:
    """An engine that leaves sampling to ``generate`` of transformers, as a careless one would."""

    def __init__(self, opened, **settings):
        self.opened, self.settings = opened, settings

    def sample(self, requests):
        for request in requests:
            ids = torch.tensor([request.prompt_ids])
            torch.manual_seed(0)
            rows = self.opened.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                num_return_sequences=len(request.seeds),
                max_new_tokens=request.max_new_tokens,
                do_sample=True,
                pad_token_id=0,
                **self.settings,
            )[:, ids.shape[1] :]
            yield [self._sample(request, *item) for item in zip(request.seeds.items(), rows.tolist(), strict=True)]

    def _sample(self, request, item, row):
        kept = list(itertools.takewhile(lambda token: token not in self.opened.stops, row))
        reason = "stop" if len(kept) < len(row) else "length"
        text = self.opened.tokenizer.decode(kept, skip_special_tokens=request.skip_special_tokens)
        return Sample(request.key, item[0], Generation(item[1], text, len(kept) + (reason == "stop"), reason))


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_the_pipelines_engine_samples_the_law(opened, num_tokens):
    found = opened.check(opened.engine(), num_tokens)
    assert found["num_samples"] == 2000 and found["degrees_of_freedom"] > 2 and found["p_value"] > 1e-3


def test_generate_with_every_default_switched_off_samples_the_law(qwen3):
    plain = GenerateEngine(qwen3, temperature=1.0, top_k=0, top_p=1.0)
    assert qwen3.check(plain, 1)["p_value"] > 1e-3 and qwen3.check(plain, 2)["p_value"] > 1e-3


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 1.0, "top_p": 1.0}, {"temperature": 0.8, "top_k": 0, "top_p": 1.0}],
    ids=["generation_config", "top_k of generation_config", "temperature"],
)
def test_leaking_sampling_defaults_are_caught(qwen3, settings):
    # The stand-in's generation_config.json has top_k 20, as Qwen3's own.
    with pytest.raises(ModelError, match=r"do not follow the model's softmax.*p = .*generation_config"):
        qwen3.check(GenerateEngine(qwen3, **settings), 1)


def test_a_leak_of_seven_percent_is_caught(qwen3):
    # top_k that cuts the least probable 7% off a law without clear favourites.
    logits = qwen3.model(input_ids=torch.tensor([qwen3.ids])).logits[:, -1]
    law = logits.double().softmax(-1)[0].sort(descending=True).values
    kept = int((law.cumsum(0) < 0.93).sum()) + 1
    cut = TopKLogitsWarper(kept)(None, logits.detach().clone()).isinf().sum()
    assert cut == law.numel() - kept > 50
    with pytest.raises(ModelError, match="expected"):
        qwen3.check(GenerateEngine(qwen3, temperature=1.0, top_k=kept, top_p=1.0), 1)


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_exact_laws_equal_brute_force(stand_ins, paper, num_tokens, monkeypatch):
    opened = Opened(replace(paper.models["gemma3_1b"], checkpoint=str(stand_ins["gemma3_text"]), dtype="float32"))
    monkeypatch.setattr(preflight_law, "_LEAST_FIRST", 1e-3)
    law = opened.law(num_tokens)
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
    found = preflight_law.check_endings(opened.engine(), opened.tokenizer, opened.ids, MESSAGES, opened.stops, **common)
    assert found["num_samples"] == 32
    deaf = TransformersEngine(opened.model, opened.tokenizer, {-1}, batch_size=32, strategy="rows")
    # What the model often says counts as a stop token, and the engine does not stop there.
    often = (
        torch.bincount(
            torch.tensor(
                [
                    token
                    for sample in preflight_law._samples(deaf, "endings", opened.ids, MESSAGES, 32, 48, 0, "stand-in")
                    for token in opened.tokenizer(sample.generation.text, add_special_tokens=False)["input_ids"]
                ]
            )
        )
        .argmax()
        .item()
    )
    with pytest.raises(ModelError, match="went on behind the stop token"):
        preflight_law.check_endings(deaf, opened.tokenizer, opened.ids, MESSAGES, {often}, **common)


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
        preflight.check_adapter(qwen3.model, qwen3.config, paper.train, qwen3.ids, 0)


def test_a_wrong_merge_is_caught(qwen3, paper, monkeypatch):
    from peft.tuners.lora.layer import Linear

    plain = Linear.get_delta_weight
    monkeypatch.setattr(Linear, "get_delta_weight", lambda self, adapter: plain(self, adapter) / 2)
    with pytest.raises(ModelError, match="merging does not work"):
        preflight.check_adapter(qwen3.model, qwen3.config, paper.train, qwen3.ids, 0)


def test_rounding_is_no_reason_to_refuse_and_a_cut_is():
    """bfloat16's tolerance: probabilities off by a tenth pass, a nucleus of 95% or another temperature do not."""
    rng = random_stream(0, "rounding")
    error = preflight_law.RELATIVE_ERROR["bfloat16"]
    law = np.sort(rng.dirichlet(np.full(400, 0.05)))[::-1]

    def p_value(engine, tolerance):
        counts = Counter(rng.choice(len(law), size=2000, p=engine / engine.sum()).tolist())
        return preflight_law.p_value_within(compare_with_law(counts, dict(enumerate(law.tolist()))), tolerance)

    rounded = [law * np.exp(rng.normal(0, error, len(law))) for _ in range(40)]
    assert min(p_value(engine, error) for engine in rounded) > preflight_law.SIGNIFICANCE
    nucleus = np.where(law.cumsum() - law < 0.95, law, 0)
    for wrong in (nucleus, law ** (1 / 0.6)):
        assert p_value(wrong, error) < preflight_law.SIGNIFICANCE
    # Without a tolerance the p-value is Pearson's; with one, outcomes that cannot be are still refused.
    counts = Counter({"a": 1000, "b": 990, "nonsense": 10})
    test = compare_with_law(counts, {"a": 0.5, "b": 0.5})
    assert preflight_law.p_value_within(test, 0.0) == preflight_law.p_value_within(test, error) == test.p_value < 1e-10
