"""A server process that speaks OpenAI's protocol over loaded models, with faults on demand.

``python -m tests.completions_server --port-file FILE NAME=DIRECTORY[:ADAPTER] ...``

Serves /v1/models, /v1/completions and /v1/chat/completions as ``vllm serve`` or llama-server does. PUT /behaviour sets
how it behaves and clears its counts, GET /behaviour tells them.
"""

import argparse
import contextlib
import json
import os
import signal
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.conftest import ROOT
from tests.forked import ForkedModule
from tests.reference_sampler import draw, next_log_probabilities

VLLM = {
    "model",
    "prompt",
    "messages",
    "n",
    "seed",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "logprobs",
    "top_logprobs",
    "stop_token_ids",
    "top_k",
    "min_p",
    "repetition_penalty",
    "return_token_ids",
    "chat_template_kwargs",
}


@dataclass
class Behaviour:
    """What tests change, then what the server counts."""

    dialect: str = "vllm"
    key: str | None = None
    max_n: int = 1_000_000
    # Tokens that the server puts before each prompt.
    added_tokens: int = 0
    # The longest answer that its context holds; None for any.
    context: int | None = None
    delay_seconds: float = 0.0
    # Faults of the next requests, in this order: a status, "drop", "half" (a reply that breaks off), "silent", or a
    # status with the body of its reply.
    faults: list = field(default_factory=list)
    # Every request from this one on fails with status 500; None for none.
    broken_from: int | None = None
    # Every request from this one on is read and never answered; None for none.
    silent_from: int | None = None
    retry_after: float | None = None
    requests: int = 0
    running: int = 0
    peak: int = 0
    times: list = field(default_factory=list)
    bodies: list = field(default_factory=list)


class Refused(Exception):
    """A request that gets an error reply."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class State:
    """Loaded models and the server's behaviour."""

    def __init__(self, models):
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.models, self.behaviour = {}, Behaviour()
        self.lock, self.compute = threading.Lock(), threading.Lock()
        for item in models:
            name, path = item.split("=", 1)
            directory, _, adapter = path.partition(":")
            model = AutoModelForCausalLM.from_pretrained(directory)
            self.models[name] = (PeftModel.from_pretrained(model, adapter) if adapter else model).eval()
            self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.texts = [self.tokenizer.decode([token]) for token in range(model.config.vocab_size)]

    def complete(self, body, chat):
        """The reply to a request's body."""
        behaviour = self.behaviour
        llama_cpp = behaviour.dialect == "llama_cpp"
        if (unknown := set(body) - VLLM) and not llama_cpp:
            raise Refused(400, f"Unrecognized request argument supplied: {unknown.pop()}")
        if body["model"] not in self.models:
            raise Refused(404, f"The model `{body['model']}` does not exist.")
        prompt = self._encode(body) if chat else body["prompt"]
        model, n = self.models[body["model"]], min(body.get("n", 1), 1 if llama_cpp else behaviour.max_n)
        seed, limit = body.get("seed"), min(body["max_tokens"], behaviour.context or body["max_tokens"])
        if not isinstance(seed, int) or not -(2**63) <= seed < 2 ** (32 if llama_cpp else 63):
            raise Refused(400, "seed must be an integer of so many bits")
        stops = {self.tokenizer.eos_token_id} if llama_cpp else set(body["stop_token_ids"])
        with self.compute:
            drawn = draw(
                model,
                prompt,
                [seed + index for index in range(n)],
                temperature=body["temperature"],
                top_p=body["top_p"],
                max_tokens=limit,
                stops=lambda tokens: tokens[-1] in stops,
            )
            law = next_log_probabilities(model, prompt) if body.get("logprobs") is not None else None
        choices = [self._choice(index, sample, body, chat, law) for index, sample in enumerate(drawn)]
        counted = sum(len(sample.tokens) for sample in drawn)
        usage = {"completion_tokens": counted, "prompt_tokens": len(prompt) + behaviour.added_tokens}
        reply = {"model": body["model"], "choices": choices, "usage": usage}
        if not llama_cpp:
            for holder in [reply] if chat else choices[:1]:
                holder["prompt_token_ids"] = prompt
        return reply

    def _encode(self, body):
        arguments = body.get("chat_template_kwargs", {})
        text = self.tokenizer.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=True, **arguments
        )
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _choice(self, index, sample, body, chat, law):
        ends = sample.finish_reason == "stop"
        kept = sample.tokens[: len(sample.tokens) - ends]
        text = self.tokenizer.decode(kept, skip_special_tokens=True)
        choice = {"index": index, "finish_reason": sample.finish_reason}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if self.behaviour.dialect == "vllm":
            choice["token_ids"] = sample.tokens
        if law is not None:
            choice["logprobs"] = self._logprobs(sample, body, chat, law)
        return choice

    def _logprobs(self, sample, body, chat, law):
        names, count = self.texts, body["top_logprobs" if chat else "logprobs"]
        top = [*law.topk(count).indices.tolist(), sample.tokens[0]]
        # llama-server writes those of completions as those of a chat.
        if not chat and self.behaviour.dialect == "vllm":
            first = {names[token]: float(law[token]) for token in top}
            return {"tokens": [names[token] for token in sample.tokens], "top_logprobs": [first]}
        entries = [{"token": names[token], "logprob": float(law[token])} for token in top]
        return {"content": [{"token": names[token], "top_logprobs": entries} for token in sample.tokens]}


class Handler(BaseHTTPRequestHandler):
    """HTTP around ``State``."""

    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *_):
        pass

    def reply(self, status, value, headers=(), cut=None):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, header in headers:
            self.send_header(name, header)
        self.end_headers()
        self.wfile.write(content[:cut])

    def read(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def do_PUT(self):
        self.state.behaviour = Behaviour(**self.read())
        self.reply(200, {})

    def do_GET(self):
        behaviour = self.state.behaviour
        if self.path == "/behaviour":
            self.reply(200, asdict(behaviour))
        elif behaviour.key and self.headers.get("Authorization") != f"Bearer {behaviour.key}":
            self.reply(401, {"error": {"message": "Incorrect API key provided"}})
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.state.models]})
        else:
            self.reply(404, {"error": {"message": f"no {self.path}"}})

    def do_POST(self):
        body, behaviour = self.read(), self.state.behaviour
        with self.state.lock:
            place = behaviour.requests
            behaviour.requests += 1
            behaviour.running += 1
            behaviour.peak = max(behaviour.peak, behaviour.running)
            behaviour.times.append(time.monotonic())
            behaviour.bodies.append(body)
            fault = behaviour.faults.pop(0) if behaviour.faults else None
            if behaviour.broken_from is not None and place >= behaviour.broken_from:
                fault = 500
            if behaviour.silent_from is not None and place >= behaviour.silent_from:
                fault = "silent"
        try:
            self.answer(body, behaviour, fault)
        finally:
            with self.state.lock:
                behaviour.running -= 1

    def answer(self, body, behaviour, fault):
        time.sleep(behaviour.delay_seconds)
        if behaviour.key and self.headers.get("Authorization") != f"Bearer {behaviour.key}":
            self.reply(401, {"error": {"message": "Incorrect API key provided"}})
        elif isinstance(fault, int):
            wait = [] if behaviour.retry_after is None else [("Retry-After", str(behaviour.retry_after))]
            self.reply(fault, {"error": {"message": f"fault {fault}"}}, wait)
        elif isinstance(fault, list):
            self.reply(*fault)
        elif fault == "drop":
            self.close_connection = True
        elif fault == "silent":
            # Until the client gives up, which is not noticed here.
            threading.Event().wait()
        else:
            try:
                reply = self.state.complete(body, self.path == "/v1/chat/completions")
            except Refused as error:
                self.reply(error.status, {"error": {"message": str(error)}})
            else:
                self.reply(200, reply, cut=20 if fault == "half" else None)
                self.close_connection = fault == "half"


class Server:
    """A running server, seen from a test."""

    def __init__(self, port):
        self.root = f"http://127.0.0.1:{port}"
        self.address = f"{self.root}/v1"

    def _call(self, method, value=None):
        data = None if value is None else json.dumps(value).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.root}/behaviour", data, method=method)) as reply:
            return json.loads(reply.read())

    def behave(self, **behaviour):
        """Start counting anew, with this behaviour."""
        self._call("PUT", behaviour)

    def counts(self):
        """The behaviour with its counts."""
        return self._call("GET")


@contextlib.contextmanager
def running_server(models, directory):
    """A server process over ``models`` (NAME=DIRECTORY[:ADAPTER]); ``directory`` takes the file with its port."""
    port_file = directory / "port"
    process = ForkedModule(["tests.completions_server", "--port-file", str(port_file), *models], ROOT)
    try:
        deadline = time.monotonic() + 120
        while not port_file.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        yield Server(int(port_file.read_text()))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def main():
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--port-file", type=Path, required=True)
    arguments = parser.parse_args()
    Handler.state = State(arguments.models)
    # Connections that all come at once are not to be refused.
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    temporary = arguments.port_file.with_suffix(".new")
    temporary.write_text(str(server.server_address[1]))
    os.replace(temporary, arguments.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
