"""The engine for servers, against a real process that speaks the protocol over the tiny model."""

import dataclasses
import os
import signal
import threading
import time

import httpx
import pytest
import yaml

from pipeline.command import Terminated, terminate
from pipeline.config.engine import OpenaiConfig
from pipeline.engines.sampling.openai_engine import open_openai
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.errors import ConfigError, ModelError
from tests.completions_server import Server
from tests.conftest import ROOT
from tests.engines.engine_cases import collect, follows, make_request, two_token_law
from tests.waiting import wait_until

LLAMA_CPP = {"dialect": "llama_cpp", "samples_per_request": 1}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """The client waits half a second before its second attempt, and twice as long before each further one."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture(scope="module")
def loaded(tiny_model, adapter):
    return Server(**{"tiny": (tiny_model, None), "tiny-soft": (tiny_model, adapter), "tiny-hard": (tiny_model, None)})


@pytest.fixture
def server(loaded, monkeypatch):
    loaded.behave()
    loaded.install(monkeypatch)
    return loaded


@pytest.fixture
def opened(server, tokenizer):
    values = yaml.safe_load((ROOT / "conf/engine/transformers.yaml").read_text())["openai"]
    values |= {"base_url": server.address, "samples_per_request": 4, "max_concurrency": 3, "timeout_seconds": 20.0}

    def open_it(condition="base", model="tiny", stops=None, **changes):
        settings, probe = OpenaiConfig(**(values | changes)), make_request(tokenizer, {0: 0}).prompt_ids
        return open_openai(settings, model, condition, tokenizer, stops or {tokenizer.eos_token_id}, probe)

    return open_it


def test_requests_and_seeds(opened, server, tokenizer):
    engine = opened()
    requests = [
        make_request(tokenizer, 9, "a", max_new_tokens=5, top_k=5),
        make_request(tokenizer, {3: 2**63 - 9, 6: 66, 7: 77}, "b"),
    ]
    found = collect(engine, requests)
    assert {key: sum(name == key for name, _ in found) for key in "ab"} == {"a": 9, "b": 3}
    assert all(found[request.key, index].seed == seed for request in requests for index, seed in request.seeds.items())
    bodies = server.now.bodies
    asked = sorted((body["n"], body["seed"], body["max_tokens"], body["top_k"]) for body in bodies)
    assert asked == [(1, 8007, 5, 5), (1, 2**63 - 9, 2, -1), (2, 66, 2, -1), (4, 7, 5, 5), (4, 4007, 5, 5)]
    for body in bodies:
        assert body["prompt"] == requests[0].prompt_ids and body["model"] == "tiny"
        assert body["stop_token_ids"] == [tokenizer.eos_token_id] and body["return_token_ids"] is True
        assert (body["temperature"], body["top_p"], body["min_p"], body["repetition_penalty"]) == (1.0, 1.0, 0.0, 1.0)
    # An interrupted run draws the same.
    left = dataclasses.replace(requests[0], seeds={index: requests[0].seeds[index] for index in range(4, 9)})
    assert collect(engine, [left]) == {item: found[item] for item in found if item[0] == "a" and item[1] >= 4}


def test_law_and_adapter(opened, model, tokenizer, adapter):
    from pipeline.engines.loading.conditioned_model import load_adapter

    stops, request = {tokenizer.eos_token_id}, make_request(tokenizer, 1000)
    law = two_token_law(model, tokenizer, request, stops)
    engine = opened(samples_per_request=500)
    assert follows(collect(engine, [request]).values(), law) > 1e-4
    for other in ({"top_p": 0.7}, {"temperature": 0.7}):
        assert follows(collect(engine, [dataclasses.replace(request, **other)]).values(), law) < 1e-6
    answers = collect(opened("soft", samples_per_request=500), [request]).values()
    assert follows(answers, law) < 1e-10
    assert follows(answers, two_token_law(load_adapter(model, adapter, [5]), tokenizer, request, stops)) > 1e-4
    with pytest.raises(ModelError, match="'tiny-hard' has the base model's log-probabilities: no adapter is in"):
        opened("hard")


def test_llama_cpp(opened, server, tokenizer):
    """What is sent and read; the server itself is tested in test_real_servers.py."""
    request = make_request(tokenizer, {0: 2**63 - 1}, max_new_tokens=5)
    plain = collect(opened(), [dataclasses.replace(request, seeds={0: 2**31 - 1})])
    server.behave(dialect="llama_cpp")
    engine = opened(**LLAMA_CPP)
    found = collect(engine, [request])
    assert {**found["p", 0].__dict__, "seed": None} == {**plain["p", 0].__dict__, "seed": None}
    collect(engine, [dataclasses.replace(request, top_k=7)])
    first, second = server.now.bodies
    assert (first["seed"], first["max_tokens"], first["n"]) == ((2**63 - 1) % 2**31, 5, 1)
    assert (first["temperature"], first["top_p"], first["top_k"], second["top_k"]) == (1, 1, 0, 7)
    assert (first["min_p"], first["typical_p"], first["repeat_penalty"], first["presence_penalty"]) == (0, 1, 1, 0)
    assert not any(first[name] for name in ("mirostat", "dry_multiplier", "xtc_probability", "dynatemp_range"))
    opened("soft", **LLAMA_CPP)
    with pytest.raises(ModelError, match="'tiny-hard' has the base model's log-probabilities"):
        opened("hard", **LLAMA_CPP)
    with pytest.raises(ConfigError, match="the stop token 'a' is not a special one"):
        opened(stops={tokenizer.encode("a")[0]}, **LLAMA_CPP)
    with pytest.raises(ConfigError, match="llama.cpp applies top_p before the temperature"):
        collect(engine, [dataclasses.replace(request, temperature=0.5, top_p=0.5)])


def test_faults_that_pass_are_repeated(opened, server, tokenizer):
    request = make_request(tokenizer, 8, max_new_tokens=4)
    whole = collect(opened(), [request])
    engine = opened(max_concurrency=1)
    server.behave(faults=[httpx.ReadTimeout("silent"), httpx.ReadError("dropped"), 429, 500])
    assert collect(engine, [request]) == whole
    assert server.now.requests == 6


def test_a_signal_ends_the_wait_at_once(opened, server, tokenizer):
    engine, before = opened(timeout_seconds=600.0), signal.signal(signal.SIGTERM, terminate)
    server.behave(silent_from=2)
    got, started = [], time.monotonic()

    def send():
        wait_until(lambda: len(got) == 2)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Terminated):
            for group in engine.sample([make_request(tokenizer, 20)]):
                got.append(len(group))
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)
    assert got == [4, 4] and time.monotonic() - started < 60


def test_clear_errors(opened, server, tokenizer, monkeypatch):
    request = make_request(tokenizer, 2)
    with pytest.raises(ModelError, match=r"has no model 'huge' \(base\); it has \['tiny', 'tiny-soft', 'tiny-hard'\]"):
        opened(model="huge")
    with pytest.raises(ConfigError, match="served_models: the condition soft is missing; it has base"):
        opened("soft", served_models={"base": "tiny"})
    with pytest.raises(ConfigError, match="served_models: soft and base are both 'tiny'"):
        opened("soft", served_models={"base": "tiny", "soft": "tiny"})
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ConfigError, match="api_key_variable: the environment variable SOME_KEY is not set"):
        opened(api_key_variable="SOME_KEY")
    server.behave(key="secret")
    with pytest.raises(EngineError, match="requests without a key .engine.openai.api_key_variable"):
        opened()
    monkeypatch.setenv("SOME_KEY", "wrong")
    with pytest.raises(EngineError, match="refuses the key in SOME_KEY"):
        opened(api_key_variable="SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "secret")
    assert len(collect(opened(api_key_variable="SOME_KEY"), [request])) == 2
    for fault, shown in (
        (httpx.ReadTimeout("x"), "no reply within 20 seconds"),
        (httpx.ConnectError("x"), "cannot be r"),
    ):
        server.behave(faults=[fault] * 2)
        with pytest.raises(EngineError, match=f"server {server.address}: {shown}.*, in 2 attempts"):
            collect(opened(max_retries=1), [dataclasses.replace(request, seeds={0: 1})])
    with pytest.raises(EngineError, match="cannot decode under a constraint"):
        collect(opened(), [dataclasses.replace(request, constraint=object())])


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (400, {"error": {"message": "1 validation error:\n  too long"}}, "validation error: too long"),
        (404, {"detail": "Not here"}, "404"),
        (503, {"error": {"message": "loading"}}, "503.*loading.*, in 1 attempts"),
        (200, {"choices": []}, "returned 0 of 2 samples of p"),
        (200, {"object": "nonsense"}, "a reply has no choices: .*nonsense"),
        (200, {"choices": [{"index": index, "finish_reason": "stop"} for index in range(2)]}, "token ids"),
        (
            200,
            {"choices": [{"index": index, "finish_reason": "stop", "token_ids": [5]} for index in range(2)]},
            "ended for the reason 'stop' after 1 of 2 tokens",
        ),
    ],
)
def test_reasons_of_servers_are_kept(opened, server, tokenizer, status, body, shown):
    engine = opened(max_retries=0)
    server.behave(faults=[[status, body]])
    with pytest.raises(EngineError, match=shown) as refused:
        collect(engine, [make_request(tokenizer, 2)])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dialect", [{"dialect": "vllm"}, LLAMA_CPP], ids=["vllm", "llama_cpp"])
def test_prompts_and_answers_of_another_length_are_refused(opened, server, tokenizer, dialect):
    request = make_request(tokenizer, 2, max_new_tokens=5)
    ours = len(request.prompt_ids)
    server.behave(dialect=dialect["dialect"], context=3)
    with pytest.raises(EngineError, match="of p .*after 3 of 5 tokens; does the context hold"):
        collect(opened(**dialect), [request])
    server.behave(dialect=dialect["dialect"], added_tokens=1)
    with pytest.raises(EngineError, match=rf"reads p as other tokens \({ours + 1}\) than ours \({ours}\)"):
        collect(opened(**dialect), [request])
