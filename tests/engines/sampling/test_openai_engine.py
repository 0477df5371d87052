"""The engine for servers, against a real process that speaks the protocol over the tiny model."""

import contextlib
import dataclasses
import os
import signal
import socket
import threading
import time

import pytest
import yaml

from pipeline.command import Terminated, _terminate
from pipeline.config.engine import OpenaiConfig
from pipeline.engines.sampling.openai_engine import open_openai
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.errors import ConfigError, ModelError
from tests.completions_server import running_server
from tests.conftest import ROOT
from tests.engines.engine_cases import collect, follows, make_request, save_adapter, two_token_law
from tests.waiting import wait_until

LLAMA_CPP = {"dialect": "llama_cpp", "samples_per_request": 1}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """The client waits half a second before its second attempt, and twice as long before each further one."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture(scope="module")
def adapter(model_config, tmp_path_factory):
    return save_adapter(model_config, tmp_path_factory.mktemp("adapters") / "soft")


@pytest.fixture(scope="module")
def process(tiny_model, adapter, tmp_path_factory):
    models = [f"tiny={tiny_model}", f"tiny-soft={tiny_model}:{adapter}", f"tiny-hard={tiny_model}"]
    with running_server(models, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(process):
    process.behave()
    return process


@pytest.fixture
def opened(server, model_config, tokenizer):
    values = yaml.safe_load((ROOT / "conf/engine/transformers.yaml").read_text())["openai"]
    values |= {"base_url": server.address, "samples_per_request": 4, "max_concurrency": 3, "timeout_seconds": 20.0}

    def open_it(condition="base", model="tiny", config=model_config, stops=None, **changes):
        settings, probe = OpenaiConfig(**(values | changes)), make_request(tokenizer, {0: 0})
        stops = stops or {tokenizer.eos_token_id}
        return open_openai(config, settings, model, condition, tokenizer, stops, probe, False)

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
    bodies = server.counts()["bodies"]
    asked = sorted((body["n"], body["seed"], body["max_tokens"], body["top_k"]) for body in bodies)
    assert asked == [(1, 8007, 5, 5), (1, 2**63 - 9, 2, -1), (2, 66, 2, -1), (4, 7, 5, 5), (4, 4007, 5, 5)]
    for body in bodies:
        assert body["prompt"] == requests[0].prompt_ids and body["model"] == "tiny"
        assert body["stop_token_ids"] == [tokenizer.eos_token_id] and body["return_token_ids"] is True
        assert (body["temperature"], body["top_p"], body["min_p"], body["repetition_penalty"]) == (1.0, 1.0, 0.0, 1.0)
    # An interrupted run draws the same.
    left = dataclasses.replace(requests[0], seeds={index: requests[0].seeds[index] for index in range(4, 9)})
    assert collect(engine, [left]) == {item: found[item] for item in found if item[0] == "a" and item[1] >= 4}


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_law(opened, model, tokenizer, endpoint):
    request, narrow = make_request(tokenizer, 1000), make_request(tokenizer, 500, top_p=0.7)
    engine = opened(endpoint=endpoint, samples_per_request=500)
    law = two_token_law(model, tokenizer, request, {tokenizer.eos_token_id})
    assert follows(collect(engine, [request]).values(), law) > 1e-4
    assert follows(collect(engine, [narrow]).values(), law) < 1e-6


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_llama_cpp(opened, server, tokenizer, endpoint):
    """What is sent and read; the server itself is tested in test_real_servers.py."""
    request = make_request(tokenizer, {0: 2**63 - 1}, max_new_tokens=5)
    plain = collect(opened(endpoint=endpoint), [dataclasses.replace(request, seeds={0: 2**31 - 1})])
    server.behave(dialect="llama_cpp")
    engine = opened(endpoint=endpoint, **LLAMA_CPP)
    found = collect(engine, [request])
    assert {**found["p", 0].__dict__, "seed": None} == {**plain["p", 0].__dict__, "seed": None}
    collect(engine, [dataclasses.replace(request, top_k=7)])
    first, second = server.counts()["bodies"]
    assert (first["seed"], first["max_tokens"], first["n"]) == ((2**63 - 1) % 2**31, 5, 1)
    assert (first["temperature"], first["top_p"], first["top_k"], second["top_k"]) == (1, 1, 0, 7)
    assert (first["min_p"], first["typical_p"], first["repeat_penalty"], first["presence_penalty"]) == (0, 1, 1, 0)
    assert not any(first[name] for name in ("mirostat", "dry_multiplier", "xtc_probability", "dynatemp_range"))
    if endpoint == "chat":
        assert first["chat_template_kwargs"] == {"enable_thinking": False} and first["reasoning_format"] == "none"
    else:
        assert first["prompt"] == request.prompt_ids
    opened("soft", endpoint=endpoint, **LLAMA_CPP)
    with pytest.raises(ModelError, match="'tiny-hard' has the base model's log-probabilities"):
        opened("hard", endpoint=endpoint, **LLAMA_CPP)
    with pytest.raises(ConfigError, match="the stop token 'a' is not a special one"):
        opened(stops={tokenizer.encode("a")[0]}, **LLAMA_CPP)
    with pytest.raises(ConfigError, match="llama.cpp applies top_p before the temperature"):
        collect(engine, [dataclasses.replace(request, temperature=0.5, top_p=0.5)])


def test_adapter(opened, model, tokenizer, adapter):
    from pipeline.engines.loading.adapter import load_adapter

    stops, request = {tokenizer.eos_token_id}, make_request(tokenizer, 1000)
    answers = collect(opened("soft", samples_per_request=500), [request]).values()
    assert follows(answers, two_token_law(model, tokenizer, request, stops)) < 1e-10
    assert follows(answers, two_token_law(load_adapter(model, adapter, [5]), tokenizer, request, stops)) > 1e-4
    # "tiny-hard" is the base model under another name.
    for endpoint in ("completions", "chat"):
        with pytest.raises(ModelError, match="'tiny-hard' has the base model's log-probabilities: no adapter is in"):
            opened("hard", endpoint=endpoint)


def test_faults_that_pass_are_repeated(opened, server, tokenizer):
    request = make_request(tokenizer, 8, max_new_tokens=4)
    whole = collect(opened(), [request])
    engine = opened(max_concurrency=1, timeout_seconds=1.5)
    server.behave(faults=["silent", "drop", "half", 429, 500], retry_after=0.05)
    assert collect(engine, [request]) == whole
    assert server.counts()["requests"] == 7


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_bounded_and_used(opened, server, tokenizer, limit):
    engine = opened(max_concurrency=limit)
    server.behave(delay_seconds=0.05)
    collect(engine, [make_request(tokenizer, 20, key, max_new_tokens=1) for key in "ab"])
    assert server.counts()["peak"] == limit and server.counts()["requests"] == 10


def test_what_is_finished_is_handed_over_before_an_error(opened, server, tokenizer):
    engine = opened(max_retries=0)
    server.behave(broken_from=4, delay_seconds=0.02)
    got = []
    with pytest.raises(EngineError, match=r"/v1: failed with status 500, in 1 attempts \(.*fault 500"):
        for group in engine.sample([make_request(tokenizer, 80)]):
            got.append(len(group))
    assert got == [4] * 4
    # Nothing new was started behind the failure.
    assert server.counts()["requests"] <= 4 + 3


def test_stopping_early_starts_nothing_more(opened, server, tokenizer):
    engine = opened()
    server.behave(delay_seconds=0.05)
    with contextlib.closing(engine.sample([make_request(tokenizer, 400)])) as stream:
        next(stream)
    time.sleep(0.3)
    assert server.counts()["requests"] < 20 and server.counts()["running"] == 0


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_ends_the_wait_at_once(opened, server, tokenizer, number, raised):
    engine, before = opened(timeout_seconds=600.0), signal.signal(signal.SIGTERM, _terminate)
    server.behave(silent_from=2)
    got, started = [], time.monotonic()

    def send():
        wait_until(lambda: len(got) == 2)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(raised):
            for group in engine.sample([make_request(tokenizer, 20)]):
                got.append(len(group))
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)
    assert got == [4, 4] and time.monotonic() - started < 60


def test_clear_errors(opened, server, tokenizer, monkeypatch, model_config):
    request = make_request(tokenizer, 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(EngineError, match=f"server {address}: cannot be reached, in 2 attempts"):
            opened(base_url=address, max_retries=1)
    with pytest.raises(ModelError, match=r"has no model 'huge' \(base\); it has \['tiny', 'tiny-soft', 'tiny-hard'\]"):
        opened(model="huge")
    with pytest.raises(ConfigError, match="served_models: the condition soft is missing; it has base"):
        opened("soft", served_models={"base": "tiny"})
    with pytest.raises(ConfigError, match="served_models: soft and base are both 'tiny'"):
        opened("soft", served_models={"base": "tiny", "soft": "tiny"})
    chat = dataclasses.replace(model_config.chat, answer_prefix="<|channel|>final<|message|>")
    with pytest.raises(ConfigError, match="chat cannot open the answer of tiny with"):
        opened(endpoint="chat", config=dataclasses.replace(model_config, chat=chat))
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ConfigError, match="api_key_variable: the environment variable SOME_KEY is not set"):
        opened(api_key_variable="SOME_KEY")
    server.behave(key="secret")
    with pytest.raises(EngineError, match="requests without a key; name one in engine.openai.api_key_variable"):
        opened()
    monkeypatch.setenv("SOME_KEY", "wrong")
    with pytest.raises(EngineError, match="refuses the key in SOME_KEY"):
        opened(api_key_variable="SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "secret")
    assert len(collect(opened(api_key_variable="SOME_KEY"), [request])) == 2
    server.behave(faults=["silent"] * 4)
    with pytest.raises(EngineError, match="no reply within 0.5 seconds, in 2 attempts"):
        collect(opened(timeout_seconds=0.5, max_retries=1), [request])
    with pytest.raises(EngineError, match="cannot decode under a constraint"):
        collect(opened(), [dataclasses.replace(request, constraint=object())])


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (
            400,
            {"error": {"message": "1 validation error:\n  Value error, too long"}},
            "refuses .*Value error, too long",
        ),
        (400, {"object": "error", "message": "old vLLM"}, "refuses the request .*old vLLM.*; engine.openai.dialect"),
        (404, {"detail": "Not here"}, "has no such model or endpoint .*404"),
        (503, {"error": {"message": "loading"}}, "failed with status 503, in 1 attempts .*loading"),
        (200, {"choices": []}, "returned 0 of 2 answers to p"),
        (200, {"object": "nonsense"}, "a reply has no choices: .*nonsense"),
        (200, {"choices": [{"index": index, "finish_reason": "stop"} for index in range(2)]}, "token ids"),
    ],
)
def test_reasons_of_servers_are_kept(opened, server, tokenizer, status, body, shown):
    engine = opened(max_retries=0)
    server.behave(faults=[[status, body]])
    with pytest.raises(EngineError, match=shown) as refused:
        collect(engine, [make_request(tokenizer, 2)])
    assert "\n" not in str(refused.value)


def test_prompts_and_answers_of_another_length_are_refused(opened, server, tokenizer):
    request = make_request(tokenizer, 2, max_new_tokens=5)
    ours, other = len(request.prompt_ids), dataclasses.replace(request, prompt_ids=[*request.prompt_ids, 5])
    with pytest.raises(EngineError, match="the server's tokens of p differ from ours"):
        collect(opened(endpoint="chat"), [other])
    for dialect, changes in (("vllm", {}), ("llama_cpp", LLAMA_CPP)):
        server.behave(dialect=dialect, context=3)
        with pytest.raises(EngineError, match="cut its answer to p after 3 of 5 tokens; does its context hold"):
            collect(opened(**changes), [request])
    for endpoint, remedy in (("chat", "its chat template is another"), ("completions", "its tokenizer")):
        server.behave(dialect="llama_cpp", added_tokens=1)
        with pytest.raises(EngineError, match=f"reads p as {ours + 1} tokens where we have {ours}: {remedy}"):
            collect(opened(endpoint=endpoint, **LLAMA_CPP), [request])
