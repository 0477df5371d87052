"""The vLLM engine: what it asks of vLLM, on a stand-in with its signatures."""

import dataclasses
import json
import sys

import pytest

from pipeline.config.engine import VllmConfig
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.engines.sampling.vllm_engine import open_vllm
from pipeline.errors import ArtifactError, ConfigError, ModelError
from tests import vllm_stand_in
from tests.engines.engine_cases import collect, follows, make_request, save_adapter, two_token_law

SETTINGS = VllmConfig(1, 0.5, 128, samples_per_request=4, requests_per_call=3, enforce_eager=True)
PROBE = [20, 21, 22, 23]


@pytest.fixture
def opened(monkeypatch, model_config, tokenizer):
    vllm_stand_in.install(monkeypatch)

    def open_it(adapter=None, **changes):
        settings = dataclasses.replace(SETTINGS, **changes)
        return open_vllm(model_config, settings, None, tokenizer, {tokenizer.eos_token_id}, adapter, PROBE)

    return open_it


def test_requests(opened, tokenizer):
    engine = opened()
    (llm,) = vllm_stand_in.LLM.calls
    assert llm.arguments["generation_config"] == "vllm" and llm.arguments["enable_prefix_caching"] is True
    assert llm.arguments["load_format"] == "safetensors" and "enable_lora" not in llm.arguments
    requests = [make_request(tokenizer, 9, "a", max_new_tokens=5), make_request(tokenizer, {3: 33, 6: 66, 7: 77}, "b")]
    found = collect(engine, requests)
    assert {key: sum(name == key for name, _ in found) for key in "ab"} == {"a": 9, "b": 3}
    # Groups of indices 0..3, 4..7, 8.. with the seed of the first.
    asked = [(params.n, params.seed) for _, params, _ in llm.requests]
    assert asked == [(4, 7), (4, 4007), (1, 8007), (1, 33), (2, 66)]
    for ids, params, lora in llm.requests:
        assert ids == requests[0].prompt_ids and lora is None
        assert params.ignore_eos and params.stop_token_ids == [tokenizer.eos_token_id] and not params.detokenize
        assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.0, 1.0, 0, 0.0)
    # The artifact has each sample's own named seed.
    assert all(found[request.key, index].seed == seed for request in requests for index, seed in request.seeds.items())


def test_adapter(opened, adapter, model, tokenizer, model_config):
    from pipeline.engines.loading.conditioned_model import load_adapter

    stops = {tokenizer.eos_token_id}
    engine = opened(adapter, samples_per_request=500)
    llm = vllm_stand_in.LLM.calls[-1]
    # Rank 2 needs the limit 8; the probe went once without and once with the adapter.
    assert llm.arguments["max_lora_rank"] == 8 and llm.arguments["max_loras"] == 1
    assert [lora is not None for _, _, lora in llm.requests] == [False, True]
    request = make_request(tokenizer, 2000)
    base_law = two_token_law(model, tokenizer, request, stops)
    adapted = load_adapter(model, adapter, PROBE)
    answers = collect(engine, [request]).values()
    assert follows(answers, two_token_law(adapted, tokenizer, request, stops)) > 1e-4
    assert follows(answers, base_law) < 1e-10


def test_an_adapter_without_effect_is_refused(opened, model_config, tmp_path):
    adapter = save_adapter(model_config, tmp_path / "soft", scale=0.0)
    with pytest.raises(ModelError, match="soft does not change the log-probabilities of the model in vLLM"):
        opened(adapter)


def test_refusals(opened, tokenizer, monkeypatch, model_config, tmp_path):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "vllm", None)
        with pytest.raises(ConfigError, match="engine.kind: vllm needs the packages in requirements-vllm.txt"):
            opened()
    engine = opened(max_model_len=20)
    request = make_request(tokenizer, 1, max_new_tokens=19)
    with pytest.raises(EngineError, match=r"engine.vllm.max_model_len: 20 is too short for p, which may take \d+ tok"):
        collect(engine, [request])
    with pytest.raises(EngineError, match="cannot decode under a constraint"):
        collect(engine, [dataclasses.replace(request, max_new_tokens=1, constraint=object())])
    with pytest.raises(ArtifactError, match="adapter_config.json does not exist"):
        opened(tmp_path / "nothing")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 2}))
    with pytest.raises(ModelError, match=f"vLLM cannot load {tmp_path}: "):
        opened(tmp_path)
    monkeypatch.setattr(
        vllm_stand_in.LLM, "_answer", lambda self, ids, params, lora: [vllm_stand_in.answer(0, [5], "abort")]
    )
    with pytest.raises(EngineError, match="sample 0 of p ended for the reason 'abort'"):
        collect(opened(), [make_request(tokenizer, 1)])
    with pytest.raises(EngineError, match="returned 1 of 2 samples of p"):
        collect(opened(), [make_request(tokenizer, 2)])
