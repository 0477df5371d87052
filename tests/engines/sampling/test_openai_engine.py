"""The engine for servers, against a real process that speaks the protocol over the tiny model."""

import contextlib
import dataclasses
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
import yaml

from pipeline.command import Terminated, _terminate
from pipeline.config.engine import OpenaiConfig
from pipeline.engines.loading.chat import encode_messages
from pipeline.engines.sampling import openai_engine
from pipeline.engines.sampling.completion_protocol import CompletionProtocol
from pipeline.engines.sampling.openai_engine import open_openai
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.errors import ConfigError, ModelError
from tests.completions_server import running_server
from tests.conftest import ROOT
from tests.engines.engine_cases import collect, follows, make_request, save_adapter, two_token_law
from tests.reference_sampler import next_log_probabilities
from tests.waiting import wait_until


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
def settings(server):
    values = yaml.safe_load((ROOT / "conf/engine/transformers.yaml").read_text())["openai"]
    values |= {"base_url": server.address, "samples_per_request": 4, "max_concurrency": 3, "timeout_seconds": 20.0}
    return OpenaiConfig(**values)


@pytest.fixture
def opened(settings, model_config, tokenizer):
    def open_it(condition="base", model="tiny", config=model_config, stops=None, **changes):
        if changes.get("dialect") == "openai" and changes.get("endpoint") == "chat":
            # The plain protocol has no field for them; the tiny model's template does without.
            config = dataclasses.replace(config, chat=dataclasses.replace(config.chat, template_arguments={}))
        changed, probe = dataclasses.replace(settings, **changes), make_request(tokenizer, {0: 0})
        stops = stops or {tokenizer.eos_token_id}
        return open_openai(config, changed, model, condition, tokenizer, stops, probe, False)

    return open_it


def without_arguments(tokenizer, request):
    """The request as a server encodes it that is not told the template's arguments."""
    return dataclasses.replace(request, prompt_ids=encode_messages(tokenizer, request.messages, {}))


def test_requests_and_seeds(opened, server, tokenizer):
    engine = opened()
    server.behave()
    requests = [make_request(tokenizer, 9, "a", max_new_tokens=5), make_request(tokenizer, {3: 33, 6: 66, 7: 77}, "b")]
    found = collect(engine, requests)
    assert {key: sum(name == key for name, _ in found) for key in "ab"} == {"a": 9, "b": 3}
    assert all(found[request.key, index].seed == seed for request in requests for index, seed in request.seeds.items())
    bodies = server.counts()["bodies"]
    assert sorted((body["n"], body["seed"]) for body in bodies) == [(1, 33), (1, 8007), (2, 66), (4, 7), (4, 4007)]
    for body in bodies:
        assert body["prompt"] == requests[0].prompt_ids and body["model"] == "tiny"
        assert body["stop_token_ids"] == [tokenizer.eos_token_id] and body["return_token_ids"] is True
        assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (1.0, 1.0, -1, 0.0)
    assert collect(engine, requests) == found


def test_top_k_is_sent_where_the_dialect_has_it(opened, server, tokenizer):
    request = make_request(tokenizer, 3, top_k=5)
    server.behave()
    collect(opened(), [request])
    assert {body["top_k"] for body in server.counts()["bodies"]} == {5}
    server.behave(dialect="openai")
    with pytest.raises(ConfigError, match="dialect openai has no top_k.*checkpoint_defaults"):
        collect(opened(dialect="openai"), [request])


def test_an_interrupted_run_draws_the_same(opened, tokenizer):
    request = make_request(tokenizer, 10, max_new_tokens=6)
    whole = collect(opened(), [request])
    left = dataclasses.replace(request, seeds={index: request.seeds[index] for index in range(4, 10)})
    assert collect(opened(), [left]) == {item: whole[item] for item in whole if item[1] >= 4}


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("dialect", ["vllm", "openai"])
def test_law(opened, server, model, tokenizer, endpoint, dialect):
    stops, request = {tokenizer.eos_token_id}, make_request(tokenizer, 1000)
    narrow = make_request(tokenizer, 500, top_p=0.7)
    plain = endpoint == "chat" and dialect == "openai"
    if plain:
        request, narrow = (without_arguments(tokenizer, asked) for asked in (request, narrow))
    engine = opened(endpoint=endpoint, dialect=dialect, samples_per_request=500)
    server.behave(dialect=dialect)
    answers = collect(engine, [request]).values()
    # The plain protocol has no stop for a chat: the server goes on behind the end of the turn.
    law = two_token_law(model, tokenizer, request, set() if plain else stops)
    assert follows(answers, law) > 1e-4
    assert follows(collect(engine, [narrow]).values(), law) < 1e-6


def test_the_dialects_agree(opened, server, model, tokenizer):
    request, answers = make_request(tokenizer, 40, max_new_tokens=12), []
    # The random model all but never ends an answer: likely tokens whose texts are in no other token end it here.
    law, texts = next_log_probabilities(model, request.prompt_ids), [tokenizer.decode([t]) for t in range(298)]
    lone = [t for t in law.argsort(descending=True).tolist() if sum(text.endswith(texts[t]) for text in texts) == 1]
    stops = set(lone[:4])
    for dialect in ("vllm", "sglang", "openai"):
        server.behave(without_token_ids=dialect != "vllm")
        answers.append(collect(opened(dialect=dialect, samples_per_request=20, stops=stops), [request]))
    assert answers[0] == answers[1] == answers[2]
    assert {answer.finish_reason for answer in answers[0].values()} == {"stop", "length"}
    # Without logprobs, several samples have no number of tokens each; one has the reply's total.
    server.behave(without_token_ids=True)
    lone = collect(opened(samples_per_request=1), [make_request(tokenizer, 4, max_new_tokens=12)])
    assert all(1 <= answer.num_tokens <= 12 for answer in lone.values())
    with pytest.raises(EngineError, match="samples_per_request to 1"):
        collect(opened(samples_per_request=2), [request])


def test_stops_that_the_plain_protocol_cannot_say_are_refused(opened, tokenizer, server):
    letters = {tokenizer.encode(letter)[0] for letter in "abcd"}
    engine = opened(dialect="openai", stops=letters)
    collect(engine, [make_request(tokenizer, 1)])
    assert sorted(server.counts()["bodies"][-1]["stop"]) == ["a", "b", "c", "d"]
    five = letters | {tokenizer.eos_token_id}
    with pytest.raises(ConfigError, match=r"end at any of 5 texts \(.*'<\|im_end\|>'.*'a'.*\), of which .* takes 4"):
        opened(dialect="openai", stops=five)
    # Half of a character of two bytes.
    half = tokenizer.encode("é")[0]
    with pytest.raises(ConfigError, match=f"the stop token {half} has no text"):
        opened(dialect="openai", stops={half})
    # Token ids have no such limit, and a chat's end is the server's.
    opened(dialect="sglang", stops=five)
    opened(dialect="openai", endpoint="chat", stops=five)
    collect(opened(stops=five), [make_request(tokenizer, 1)])
    assert server.counts()["bodies"][-1]["stop_token_ids"] == sorted(five)


def test_log_probabilities(opened, server, model, tokenizer):
    request = make_request(tokenizer, 1, temperature=0.5)
    top = next_log_probabilities(model, request.prompt_ids).topk(7)
    for endpoint in ("completions", "chat"):
        found = opened(endpoint=endpoint).first_token_log_probabilities(request, 7)
        assert list(found) == top.indices.tolist()
        assert list(found.values()) == pytest.approx(top.values.tolist(), abs=1e-6)
    assert opened(dialect="openai").first_token_log_probabilities(request, 7) is None
    server.behave(without_logprobs=True)
    assert opened().first_token_log_probabilities(request, 7) is None


def test_adapter(opened, server, model, tokenizer, adapter, capsys):
    from pipeline.engines.loading.model import load_adapter

    stops, request = {tokenizer.eos_token_id}, make_request(tokenizer, 1000)
    engine = opened("soft", samples_per_request=500)
    base_law = two_token_law(model, tokenizer, request, stops)
    answers = collect(engine, [request]).values()
    assert follows(answers, base_law) < 1e-10
    assert follows(answers, two_token_law(load_adapter(model, adapter, [5]), tokenizer, request, stops)) > 1e-4
    # "tiny-hard" is the base model under another name.
    with pytest.raises(ModelError, match="'tiny-hard' has the base model's log-probabilities: no adapter is in effect"):
        opened("hard")
    server.behave(without_logprobs=True)
    opened("hard")
    assert "0 of 8 answers differ" in capsys.readouterr().out
    opened("soft")
    assert "0 of 8 answers differ" not in (note := capsys.readouterr().out) and "answers differ" in note


def test_faults_that_pass_are_repeated(opened, server, tokenizer):
    request = make_request(tokenizer, 8, max_new_tokens=4)
    whole = collect(opened(), [request])
    engine = opened(max_concurrency=1, timeout_seconds=1.5)
    server.behave(faults=["silent", "drop", "half", 429, 500], retry_after=0.05)
    assert collect(engine, [request]) == whole
    assert server.counts()["requests"] == 7


def test_retry_after_is_waited_for(opened, server, tokenizer):
    engine, request = opened(max_concurrency=1), make_request(tokenizer, 4)
    server.behave(faults=[429], retry_after=0.4)
    collect(engine, [request])
    first, second = server.counts()["times"]
    assert second - first >= 0.4


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


def test_fewer_choices_than_asked_for(opened, server, tokenizer):
    engine, request = opened(), make_request(tokenizer, 8, max_new_tokens=4)
    server.behave(max_n=3)
    found = collect(engine, [request])
    assert len(found) == 8
    assert sorted((body["n"], body["seed"]) for body in server.counts()["bodies"]) == [
        (1, 3007),
        (1, 7007),
        (4, 7),
        (4, 4007),
    ]
    server.behave(max_n=3)
    assert collect(engine, [request]) == found
    server.behave(max_n=0)
    with pytest.raises(EngineError, match="returned no answer to p") as refused:
        collect(engine, [request])
    # Not its own cause: following the causes must come to an end.
    assert refused.value.__cause__ is not refused.value


def test_stopping_early_leaves_no_request_behind(opened, server, tokenizer):
    engine = opened()
    server.behave(delay_seconds=0.05)
    with contextlib.closing(engine.sample([make_request(tokenizer, 400)])) as stream:
        next(stream)
    before = server.counts()["requests"]
    time.sleep(0.3)
    assert server.counts()["requests"] == before < 20


@pytest.fixture
def handlers():
    """Those of a stage; the ones from before are put back."""
    before = signal.signal(signal.SIGTERM, _terminate)
    yield
    signal.signal(signal.SIGTERM, before)


SIGNALS = [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
def test_a_signal_ends_the_wait_at_once(opened, server, tokenizer, handlers, number, raised):
    engine = opened(timeout_seconds=600.0)
    server.behave(silent_from=2)
    got, started = [], time.monotonic()

    def send():
        wait_until(lambda: len(got) == 2)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(raised):
        for group in engine.sample([make_request(tokenizer, 20)]):
            got.append(len(group))
    sender.join()
    assert got == [4, 4] and time.monotonic() - started < 60


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
def test_a_signal_inside_the_event_loop_is_not_lost(opened, server, tokenizer, handlers, monkeypatch, number, raised):
    """asyncio keeps or logs what a handler raises there; and what is finished by then is handed over first."""
    engine, read = opened(timeout_seconds=600.0), CompletionProtocol.generations
    server.behave(silent_from=1)

    def interrupted(*arguments):
        os.kill(os.getpid(), number)
        return read(*arguments)

    monkeypatch.setattr(CompletionProtocol, "generations", interrupted)
    got, started = [], time.monotonic()
    with pytest.raises(raised):
        for group in engine.sample([make_request(tokenizer, 20)]):
            got.append(len(group))
    assert got == [4] and time.monotonic() - started < 60


def test_a_signal_while_requests_are_given_up_is_not_lost(opened, server, tokenizer, handlers, monkeypatch):
    engine, close = opened(), openai_engine._close

    async def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        await close(*arguments)

    monkeypatch.setattr(openai_engine, "_close", interrupted)
    with pytest.raises(Terminated):
        collect(engine, [make_request(tokenizer, 4)])


def test_signals_that_are_ignored_or_belong_to_another_thread_are_left_alone(opened, tokenizer, handlers):
    request = make_request(tokenizer, 4)
    whole = collect(opened(), [request])
    found = []
    other = threading.Thread(target=lambda: found.append(collect(opened(), [request])))
    other.start()
    other.join()
    assert found == [whole] and signal.getsignal(signal.SIGTERM) is _terminate
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in opened().sample([request]):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


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
    server.behave(dialect="openai")
    with pytest.raises(EngineError, match="refuses the request .*Unrecognized request argument.*dialect"):
        collect(opened(), [request])
    server.behave(faults=["silent"] * 4)
    with pytest.raises(EngineError, match="no reply within 0.5 seconds, in 2 attempts"):
        collect(opened(timeout_seconds=0.5, max_retries=1), [request])
    with pytest.raises(EngineError, match="cannot decode under a constraint"):
        collect(opened(), [dataclasses.replace(request, constraint=object())])


def test_a_chat_must_be_encoded_as_ours(opened, tokenizer, model_config):
    engine, request = opened(endpoint="chat"), make_request(tokenizer, 2)
    collect(engine, [request])
    other = dataclasses.replace(request, prompt_ids=[*request.prompt_ids, 5])
    with pytest.raises(EngineError, match="the server's tokens of p differ from ours"):
        collect(engine, [other])
    chat = dataclasses.replace(model_config.chat, answer_prefix="<|channel|>final<|message|>")
    with pytest.raises(ConfigError, match="chat cannot open the answer of tiny with"):
        opened(endpoint="chat", config=dataclasses.replace(model_config, chat=chat))


def test_the_limit_of_a_chat_has_both_of_its_names_but_for_openai(opened, server, tokenizer):
    request = make_request(tokenizer, 1, max_new_tokens=5)
    for dialect, names in (
        ("vllm", {"max_tokens", "max_completion_tokens"}),
        ("sglang", {"max_tokens", "max_completion_tokens"}),
        ("openai", {"max_completion_tokens"}),
    ):
        server.behave(dialect="openai" if dialect == "openai" else "vllm")
        asked = without_arguments(tokenizer, request) if dialect == "openai" else request
        collect(opened(endpoint="chat", dialect=dialect), [asked])
        (body,) = server.counts()["bodies"]
        assert {name for name in body if body[name] == 5} == names


def test_an_answer_of_another_length_than_asked_for_is_refused(opened, server, tokenizer):
    request = make_request(tokenizer, 1, max_new_tokens=5)
    chat = without_arguments(tokenizer, request)
    # As llama-cpp-python, which does not know the new name.
    engine = opened(endpoint="chat", dialect="openai", samples_per_request=1)
    server.behave(dialect="llama_cpp")
    with pytest.raises(EngineError, match="p has 30 tokens where at most 5 were asked for: it does not follow max_com"):
        collect(engine, [chat])
    for dialect in ("vllm", "openai"):
        server.behave(dialect=dialect, context=3)
        with pytest.raises(EngineError, match="cut its answer to p after 3 of 5 tokens; does its context hold"):
            collect(opened(dialect=dialect, samples_per_request=1), [request])


def test_a_prompt_of_another_length_is_refused(opened, server, tokenizer):
    request = make_request(tokenizer, 2)
    ours = len(request.prompt_ids)
    # A chat that is not told to leave out thinking: six tokens fewer.
    for endpoint, added, remedy in (("chat", -6, "its chat template is another"), ("completions", 1, "its tokenizer")):
        server.behave(dialect="openai", added_tokens=max(added, 0))
        with pytest.raises(EngineError, match=f"reads p as {ours + added} tokens where we have {ours}: {remedy}"):
            collect(opened(dialect="openai", endpoint=endpoint), [request])


def test_template_arguments_that_cannot_be_sent_are_refused(settings, model_config, tokenizer):
    assert model_config.chat.template_arguments == {"enable_thinking": False}
    plain = dataclasses.replace(settings, dialect="openai", endpoint="chat")
    with pytest.raises(ConfigError, match="openai cannot tell a chat template its arguments .*enable_thinking.*False"):
        open_openai(model_config, plain, "tiny", "base", tokenizer, {tokenizer.eos_token_id}, None, False)


def test_reasons_of_servers_are_kept(opened, server, tokenizer):
    request, engine = make_request(tokenizer, 1), opened(max_retries=0)
    missing = {"loc": ["body", "prompt"], "msg": "Field required"}
    for status, body, shown in (
        (400, {"error": {"message": "1 validation error:\n  Value error, too long"}}, "error: Value error, too long"),
        (422, {"detail": [missing, missing]}, r"body.prompt: Field required; body.prompt: Field required\)"),
        (404, {"detail": "Not here"}, "no such model or endpoint .*404 - Not here"),
        (503, {"detail": "Service is not available"}, "failed with status 503.*Service is not available"),
        (500, {"error": "out of memory"}, "failed with status 500.*out of memory"),
        (400, {"object": "error", "message": "old vLLM"}, "refuses the request .*old vLLM"),
    ):
        server.behave(faults=[[status, body]])
        with pytest.raises(EngineError, match=shown) as refused:
            collect(engine, [request])
        assert "\n" not in str(refused.value)


def test_a_server_without_a_list_of_models_is_asked_all_the_same(opened, server, tokenizer, capsys):
    for status in (403, 405, 500):
        server.behave(models_status=status)
        assert len(collect(opened(max_retries=0), [make_request(tokenizer, 2)])) == 2
        assert f"does not list its models (Error code: {status} - no list here)" in capsys.readouterr().out
    server.behave(models_status=401)
    with pytest.raises(EngineError, match="requests without a key"):
        opened(max_retries=0)


LLAMA_CPP = {"dialect": "llama_cpp", "samples_per_request": 1}


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_llama_cpp(opened, server, tokenizer, endpoint):
    """What is sent; the servers themselves are tested in test_real_servers.py."""
    request = make_request(tokenizer, {0: 2**63 - 1}, max_new_tokens=5, top_k=7)
    server.behave(dialect="llama_cpp")
    collect(opened(endpoint=endpoint, **LLAMA_CPP), [request])
    (body,) = server.counts()["bodies"]
    assert body["seed"] == (2**63 - 1) % 2**31 and body["max_tokens"] == 5 and body["n"] == 1
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"], body["typical_p"]) == (1, 1, 7, 0, 1)
    assert (body["repeat_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1, 0, 0)
    assert not any(body[name] for name in ("mirostat", "mirostat_mode", "dry_multiplier", "xtc_probability"))
    assert "stop" not in body and "stop_token_ids" not in body
    if endpoint == "chat":
        assert body["chat_template_kwargs"] == {"enable_thinking": False} and body["reasoning_format"] == "none"
    else:
        assert tokenizer(body["prompt"])["input_ids"] == request.prompt_ids
    server.behave(dialect="llama_cpp")
    collect(opened(**LLAMA_CPP), [dataclasses.replace(request, top_k=None)])
    assert server.counts()["bodies"][0]["top_k"] == 0


def test_llama_cpp_counts_the_stop_token(opened, tokenizer):
    request = make_request(tokenizer, 1)
    protocol = opened(**LLAMA_CPP)._protocol

    def count(tokens, reason, **reply):
        choice = {"index": 0, "text": "x", "finish_reason": reason}
        reply = {"choices": [choice], "usage": {"completion_tokens": tokens}, **reply}
        (found,) = protocol.generations(reply, dataclasses.replace(request, max_new_tokens=8), {0: 5}).values()
        return found.num_tokens, found.finish_reason

    assert count(3, "stop") == (4, "stop")
    # llama-server counts it.
    assert count(3, "stop", timings={"predicted_n": 3}) == (3, "stop")
    assert count(8, "length") == (8, "length")
    # llama-cpp-python ends no answer within a character.
    assert count(10, "length") == count(9, "stop") == (8, "length")
    with pytest.raises(EngineError, match="has 12 tokens where at most 8 were asked for"):
        count(12, "length")


def test_what_llama_cpp_cannot_do_is_refused(opened, server, tokenizer):
    server.behave(dialect="llama_cpp")
    with pytest.raises(ConfigError, match="the stop token 'a' is not a special one"):
        opened(stops={tokenizer.encode("a")[0]}, **LLAMA_CPP)
    engine, request = opened(**LLAMA_CPP), make_request(tokenizer, 1)
    with pytest.raises(ConfigError, match="llama.cpp applies top_p before the temperature"):
        collect(engine, [dataclasses.replace(request, temperature=0.5, top_p=0.5)])
    apart = [*request.prompt_ids, *[tokenizer.encode(letter)[0] for letter in "number"]]
    with pytest.raises(ConfigError, match=r"sends texts, and '.*number' \(p\) does not give the request's tokens"):
        collect(engine, [dataclasses.replace(request, prompt_ids=apart)])
    # Token ids are what llama-cpp-python refuses.
    with pytest.raises(EngineError, match="refuses the request .*body.prompt.str: Input should be a valid string"):
        collect(opened(dialect="openai", samples_per_request=1), [request])


def test_first_log_probabilities_of_llama_server(opened):
    """It writes those of completions as those of a chat."""
    entries = [{"token": "a", "id": 5, "logprob": -0.5}, {"token": "b", "id": 6, "logprob": -1.5}]
    reply = {"choices": [{"index": 0, "logprobs": {"content": [{"token": "a", "top_logprobs": entries}]}}]}
    assert opened(**LLAMA_CPP)._protocol.first_log_probabilities(reply, 2) == {"a": -0.5, "b": -1.5}


def test_seeds_of_63_bits_pass(opened, server, tokenizer):
    seed = 2**63 - 1 - 10
    collect(opened(), [make_request(tokenizer, {0: seed})])
    assert server.counts()["bodies"][-1]["seed"] == seed and np.int64(seed) == seed
