"""A server that speaks OpenAI's protocol over loaded models, with faults on demand, behind the real client's
transport.
"""

import json
import threading
import time
from dataclasses import dataclass, field

import httpx
import openai

from tests.reference_sampler import draw, next_log_probabilities

FIELDS = {
    *("model", "prompt", "n", "seed", "temperature", "top_p", "presence_penalty", "frequency_penalty", "max_tokens"),
    *("logprobs", "stop_token_ids", "top_k", "min_p", "repetition_penalty", "return_token_ids"),
}
"""What vLLM takes."""


@dataclass
class Behaviour:
    """What tests change, then what the server counts."""

    dialect: str = "vllm"
    key: str | None = None
    # Tokens that the server puts before each prompt.
    added_tokens: int = 0
    # The longest answer that its context holds; None for any.
    context: int | None = None
    delay_seconds: float = 0.0
    # Of the next requests, in this order: a status, a status with the body of its reply, or an exception.
    faults: list = field(default_factory=list)
    # Every request from this one on fails with status 500, or is never answered; None for none.
    broken_from: int | None = None
    silent_from: int | None = None
    requests: int = 0
    running: int = 0
    peak: int = 0
    bodies: list = field(default_factory=list)


class Server:
    """Serves models by name, each a directory and that of its adapter or None, to clients made after ``install``."""

    address = "http://server.test/v1"

    def __init__(self, **models):
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._models, self._lock, self._compute = {}, threading.Lock(), threading.Lock()
        for name, (directory, adapter) in models.items():
            model = AutoModelForCausalLM.from_pretrained(directory)
            self._models[name] = (PeftModel.from_pretrained(model, adapter) if adapter else model).eval()
            self._tokenizer = AutoTokenizer.from_pretrained(directory)
        self.behave()

    def install(self, monkeypatch):
        """Send what the client sends here."""
        client, transport = openai.OpenAI, httpx.MockTransport(self._handle)
        made = lambda **options: client(**options, http_client=httpx.Client(transport=transport))  # noqa: E731
        monkeypatch.setattr(openai, "OpenAI", made)

    def behave(self, **behaviour):
        """Start counting anew, with this behaviour."""
        self.now = Behaviour(**behaviour)

    def _handle(self, request):
        now = self.now
        if now.key and request.headers.get("Authorization") != f"Bearer {now.key}":
            return httpx.Response(401, json={"error": {"message": "Incorrect API key provided"}})
        if request.url.path == "/v1/models":
            names = [{"id": name, "object": "model"} for name in self._models]
            return httpx.Response(200, json={"object": "list", "data": names})
        body = json.loads(request.content)
        with self._lock:
            place, fault = now.requests, now.faults.pop(0) if now.faults else None
            now.requests, now.running = now.requests + 1, now.running + 1
            now.peak = max(now.peak, now.running)
            now.bodies.append(body)
        try:
            time.sleep(now.delay_seconds)
            if now.silent_from is not None and place >= now.silent_from:
                threading.Event().wait()
            if now.broken_from is not None and place >= now.broken_from:
                fault = 500
            if isinstance(fault, Exception):
                raise fault
            if isinstance(fault, int):
                fault = [fault, {"error": {"message": f"fault {fault}"}}]
            status, reply = fault or self._complete(body, now)
            return httpx.Response(status, json=reply)
        finally:
            with self._lock:
                now.running -= 1

    def _complete(self, body, now):
        llama_cpp = now.dialect == "llama_cpp"
        assert llama_cpp or set(body) <= FIELDS
        model, prompt, seed, limit = self._models[body["model"]], body["prompt"], body["seed"], body["max_tokens"]
        assert 0 <= seed < 2 ** (32 if llama_cpp else 63)
        stops = {self._tokenizer.eos_token_id} if llama_cpp else set(body["stop_token_ids"])
        with self._compute:
            drawn = draw(
                model,
                prompt,
                [seed + index for index in range(1 if llama_cpp else body["n"])],
                temperature=body["temperature"],
                top_p=body["top_p"],
                max_tokens=min(limit, now.context or limit),
                stops=lambda tokens: tokens[-1] in stops,
            )
            law = next_log_probabilities(model, prompt) if "logprobs" in body else None
        choices = []
        for index, sample in enumerate(drawn):
            choice = {"index": index, "finish_reason": sample.finish_reason, "token_ids": sample.tokens}
            if law is not None:
                tokens = [*law.topk(body["logprobs"]).indices.tolist(), sample.tokens[0]]
                top = {self._tokenizer.decode([token]): float(law[token]) for token in tokens}
                choice["logprobs"] = {"top_logprobs": [top]}
            choices.append(choice)
        reply = {"model": body["model"], "choices": choices}
        if llama_cpp:
            return 200, reply | self._as_llama_cpp(choices[0], len(prompt) + now.added_tokens)
        choices[0]["prompt_token_ids"] = [0] * now.added_tokens + prompt
        return 200, reply

    def _as_llama_cpp(self, choice, prompt_tokens):
        """llama-server gives text and counts of tokens, and log-probabilities as those of a chat."""
        tokens = choice.pop("token_ids")
        choice["text"] = self._tokenizer.decode(tokens[: len(tokens) - (choice["finish_reason"] == "stop")])
        if "logprobs" in choice:
            (top,) = choice["logprobs"]["top_logprobs"]
            entries = [{"token": token, "logprob": value} for token, value in top.items()]
            choice["logprobs"] = {"content": [{"top_logprobs": entries}]}
        return {"usage": {"completion_tokens": len(tokens), "prompt_tokens": prompt_tokens}}
