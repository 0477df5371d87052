"""The endpoint as OpenAI's own client sees it."""

import asyncio
import contextlib
import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
import uvicorn

from pipeline import serve
from pipeline.engines.sampling.generate import generate_prompts
from pipeline.engines.sampling.samplers import SamplingLaw
from pipeline.errors import ConfigError
from pipeline.inference import opening, token_stream
from pipeline.inference.server import ModelServer
from pipeline.inference.token_stream import Inbox, Job, Piece, SharedSteps
from tests.conftest import ROOT
from tests.engines.sampling.test_samplers import passes
from tests.forked import ForkedModule
from tests.waiting import wait_until

MESSAGES = [{"role": "user", "content": "Generate exactly ONE random number."}]


@pytest.fixture(scope="module")
def loaded(project):
    return opening.open_weights(opening.find_weights(project.params, None, "soft", None), "A number.")


@pytest.fixture(scope="module")
def address(loaded):
    """A server over base and soft, in a thread."""
    listening = serve.listening_socket("127.0.0.1", 0)
    application = ModelServer(loaded, {"tiny": False, "tiny-soft": True}, 5).application()
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_until(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    server.should_exit = True
    thread.join()


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=address, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def chat(client):
    def ask(**changes):
        values = {"model": "tiny-soft", "messages": MESSAGES, "seed": 3, "max_completion_tokens": 6} | changes
        return client.chat.completions.create(**values)

    return ask


def expected(loaded, ids, seeds, temperature=1.0, top_p=1.0):
    """Answers of the engine in this process."""
    settings = {"stop_ids": loaded.stop_ids, "max_new_tokens": 6, "batch_size": 4}
    law = SamplingLaw(temperature, top_p)
    batches = generate_prompts(loaded.model, loaded.tokenizer, [ids], [seeds], [law], **settings)
    answers = {index: answer for batch in batches for _, index, answer in batch}
    return [answers[index] for index in range(len(seeds))]


def test_an_answer_is_the_pipelines_own_with_that_seed(client, chat, loaded):
    """Whatever is asked at the same time, with the adapter and without."""
    assert [model.id for model in client.models.list()] == ["tiny", "tiny-soft"]
    ids, law = loaded.encode_messages(MESSAGES, False), {"temperature": 0.7, "top_p": 0.9}
    asked = [(name, seed) for seed in range(12) for name in ("tiny", "tiny-soft")]
    with ThreadPoolExecutor(len(asked)) as threads:
        replies = list(threads.map(lambda own: chat(model=own[0], seed=own[1], stop=None, **law), asked))
    for (name, seed), reply in zip(asked, replies, strict=True):
        with loaded.model.disable_adapter() if name == "tiny" else contextlib.nullcontext():
            (wanted,) = expected(loaded, ids, [seed], **law)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (wanted.text, wanted.finish_reason)
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (len(ids), wanted.num_tokens)


def test_several_samples(chat):
    texts = [choice.message.content for choice in chat(n=6).choices]
    assert texts == [choice.message.content for choice in chat(n=6).choices] and len(set(texts)) > 3
    assert chat(n=1).choices[0].message.content == texts[0]
    (greedy,) = {choice.message.content for choice in chat(temperature=0, n=4).choices}
    assert greedy == chat(temperature=0, seed=9).choices[0].message.content


@pytest.mark.parametrize("n", [1, 7])
def test_a_stream_has_the_same_answers(chat, n):
    """Whole characters at a time, whatever the steps."""
    settings = {"n": n, "stream_options": {"include_usage": True}, "stream": True}
    whole, parts = chat(n=n, max_completion_tokens=12), list(chat(max_completion_tokens=12, **settings))
    texts, reasons = [""] * n, [None] * n
    for chunk in parts[:-1]:
        (choice,) = chunk.choices
        assert reasons[choice.index] is None and chunk.usage is None and choice.delta.role == "assistant"
        texts[choice.index] += choice.delta.content or ""
        reasons[choice.index] = choice.finish_reason
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert parts[-1].usage == whole.usage and parts[-1].choices == [] and len(parts) > n + 1


@pytest.mark.parametrize("piecewise", [False, True])
def test_stop_strings_end_an_answer(chat, piecewise):
    whole = [choice.message.content for choice in chat(n=6, max_completion_tokens=20).choices]
    stops = sorted({text[size : size + 2] for text in whole for size in (3, 6)})
    stops = [stop for stop in stops if len(stop) == 2 and "\ufffd" not in stop][:4]
    assert stops
    reply = chat(n=6, max_completion_tokens=20, stop=stops, stream=piecewise)
    texts, reasons = [""] * 6, [None] * 6
    for choice in [item for chunk in reply for item in chunk.choices] if piecewise else reply.choices:
        texts[choice.index] += (choice.delta if piecewise else choice.message).content
        reasons[choice.index] = choice.finish_reason
    for text, reason, full in zip(texts, reasons, whole, strict=True):
        places = [full.find(stop) for stop in stops if stop in full]
        assert text == (full[: min(places)] if places else full)
        assert reason == "stop" or not places
    assert set(texts) != set(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n: must be greater than or equal to 1, got 0"),
        ({"n": 10**6}, "n: must be less than or equal to 65536"),
        ({"seed": 1.5}, "seed: must be a valid integer"),
        ({"stop": ["a"] * 5}, "stop: must have at most 4 items"),
        ({"logprobs": True}, "logprobs: unknown key"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "tool_call_id: unknown key"),
        ({"max_completion_tokens": 10**9}, "the model takes"),
        ({"messages": [{"role": "user", "content": "word " * 5000}]}, "the model takes"),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_parameters_name(chat, changes, message):
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        chat(**changes)
    assert caught.value.type == "invalid_request_error"


def test_errors_have_openais_format(address, chat, loaded):
    with pytest.raises(openai.NotFoundError, match="there is no model 'other'") as caught:
        chat(model="other")
    assert caught.value.code == "model_not_found"
    for body in (b"{", b"[]", b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud800"}]}'):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{address}/chat/completions", body))
        assert refused.value.code == 400
        assert set(json.loads(refused.value.read())["error"]) == {"message", "type", "param", "code"}
    # Refused by its length, before it is sent; and a path that does not exist by what does.
    for path, length, code in (("chat/completions", 10**9, 413), ("completions", 2, 404)):
        request = urllib.request.Request(f"{address}/{path}", b"{}", {"Content-Length": str(length)})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=5)
        assert refused.value.code == code and "message" in json.loads(refused.value.read())["error"]
    hook = loaded.model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(openai.InternalServerError, match="the server has failed"):
        chat()
    hook.remove()
    assert chat().choices


@pytest.mark.parametrize(("most", "most_passes"), [(2**16, 29), (8, 40)])
def test_samples_that_come_later_share_the_steps_of_the_model(loaded, monkeypatch, most, most_passes):
    monkeypatch.setattr(token_stream, "MOST_SAMPLES", most)
    shared, prompts, texts = SharedSteps(loaded, 64), [tuple(loaded.encode(text)) for text in ("A", "Another")], {}
    with passes(loaded.model) as sizes:
        for seed in range(20):
            shared.add(Job(prompts[seed % 2], [seed], 6, 1.0, 1.0, (), False))
            while shared.under_way if seed == 19 else len(sizes) < seed:
                texts |= {job.seeds[0]: piece.text for job, (piece,) in shared.step().items()}
    # A prompt is run once, whenever it is asked for.
    assert sorted(tokens for _, tokens in sizes if tokens > 1) == sorted(map(len, prompts))
    assert len(sizes) <= most_passes
    for place, ids in enumerate(prompts):
        seeds = range(place, 20, 2)
        assert [texts[seed] for seed in seeds] == [answer.text for answer in expected(loaded, ids, seeds)]


def test_pieces_that_a_slow_client_has_not_taken_are_joined():
    inbox = Inbox()
    for pieces in ([Piece(0, "a", 1, None), Piece(1, "x", 2, "stop")], [Piece(0, "b", 3, "length")]):
        inbox.put(pieces)
    assert asyncio.run(inbox.take()) == [Piece(0, "ab", 4, "length"), Piece(1, "x", 2, "stop")]


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_ends_its_answer(address, loaded, chat, streams):
    body = {"model": "tiny", "messages": MESSAGES, "stream": streams, "n": 5, "max_completion_tokens": 400}
    host, port = address.removeprefix("http://").removesuffix("/v1").split(":")
    with passes(loaded.model) as sizes:
        with socket.create_connection((host, int(port))) as connection:
            content = json.dumps(body).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)
            wait_until(lambda: len(sizes) > 4)
        # Whoever asks next is answered, and then nothing is left to do.
        chat(max_completion_tokens=1)
        before = 0
        while before < len(sizes):
            before = len(sizes)
            threading.Event().wait(0.5)
    assert len(sizes) < 200


def test_the_command_serves_until_it_is_interrupted(project, tmp_path):
    words = ["--params", str(project.path), "--condition", "soft", "--port", "0"]
    said, errors = tmp_path / "said", tmp_path / "errors"
    process = ForkedModule(["pipeline.serve", *words], ROOT, errors, said)
    wait_until(lambda: said.exists() and said.read_text().endswith("\n"), process)
    line = said.read_text()
    assert line.startswith("embedded and embedded-soft at http://127.0.0.1:"), process.errors
    with openai.OpenAI(base_url=line.split()[4].rstrip(";"), api_key="any", max_retries=0) as client:
        reply = client.chat.completions.create(model="embedded-soft", messages=MESSAGES, n=2, max_tokens=3)
        assert len(reply.choices) == 2
    process.send_signal(signal.SIGINT)
    assert (process.wait(), process.errors.strip(), said.read_text()) == (130, "interrupted", line)


def test_an_address_in_use_is_refused():
    with serve.listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port} .*in use"):
            serve.listening_socket("127.0.0.1", port)
    with pytest.raises(ConfigError, match="cannot listen on 127.0.0.1 port 70000"):
        serve.listening_socket("127.0.0.1", 70000)
