"""A server over HTTP in OpenAI's protocol, as ``vllm serve`` or llama.cpp's ``llama-server`` extends it.

Requests run side by side, at most ``max_concurrency`` at a time. The client repeats what may pass (no connection,
time-out, 408, 409, 429, 5xx), waiting as Retry-After says or twice as long each time. A request that fails for good
ends the run, after those under way have been handed over. Ctrl-C and SIGTERM do not wait for requests under way.
"""

import itertools
import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import openai
from transformers import PreTrainedTokenizerBase

from pipeline.config.engine import OpenaiConfig
from pipeline.config.models import ModelConfig
from pipeline.engines.sampling.generate import Generation, generation_from_tokens
from pipeline.engines.sampling.text_engine import EngineError, Sample, SampleRequest, first_seed, seed_groups
from pipeline.errors import ConfigError, ModelError, first_line

COMPARED_TOKENS = 5
"""Most probable next tokens that are compared with and without an adapter; servers offer at least so many."""
LONGEST_REASON = 500
"""Characters that are shown of a server's reason for refusing."""
# What llama.cpp's samplers do beyond temperature, top-k and top-p, switched off.
LLAMA_CPP_OFF = {
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "repeat_penalty": 1.0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "adaptive_target": -1.0,
    "mirostat": 0,
}
# llama.cpp's seeds have 32 bits, all of them set meaning a random one.
LLAMA_CPP_SEEDS = 2**31


class OpenaiEngine:
    """Samples from one model of a server."""

    def __init__(
        self,
        settings: OpenaiConfig,
        served_model: str,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        template_arguments: Mapping[str, Any],
    ) -> None:
        """``served_model`` is the model's name on the server; its chat template gets ``template_arguments``.

        Raises:
            ConfigError: The API key is not set, or llama.cpp does not end answers at one of ``stop_ids``.
        """
        self._settings, self._served_model = settings, served_model
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self._template_arguments = dict(template_arguments)
        self._chat, self._llama_cpp = settings.endpoint == "chat", settings.dialect == "llama_cpp"
        if self._llama_cpp:
            for token in sorted(stop_ids):
                entry = tokenizer.added_tokens_decoder.get(token)
                if entry is None or not entry.special:
                    raise ConfigError(
                        f"the stop token {tokenizer.decode([token])!r} is not a special one, and the dialect llama_cpp "
                        "has no other; engine.openai.dialect: vllm sends token ids"
                    )
        # The client insists on a key; a server that wants none ignores it.
        variable = settings.api_key_variable
        key = "none" if variable is None else os.environ.get(variable)
        if not key:
            raise ConfigError(f"engine.openai.api_key_variable: the environment variable {variable} is not set")
        self._client = openai.OpenAI(
            base_url=settings.base_url,
            api_key=key,
            timeout=settings.timeout_seconds,
            max_retries=settings.max_retries,
        )

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine. The requests under way when one fails for good are handed over before the error."""
        if any(request.constraint is not None for request in requests):
            raise EngineError("engine.kind openai: cannot decode under a constraint; use transformers")
        size = self._settings.samples_per_request
        asked = [(request, group) for request in requests for group in seed_groups(request.seeds, size)]
        bodies = [self._body(request, len(group), first_seed(group)) for request, group in asked]
        for place, reply in self._replies(bodies):
            request, group = asked[place]
            choices = sorted(reply["choices"], key=lambda choice: choice["index"])
            if len(choices) != len(group):
                raise EngineError(
                    f"{self._settings.base_url} returned {len(choices)} of {len(group)} answers to {request.key}"
                )
            self._check_prompt(reply, choices[0], request)
            yield [
                Sample(request.key, index, self._generation(choice, seed, request, reply))
                for (index, seed), choice in zip(sorted(group.items()), choices, strict=True)
            ]

    def first_log_probabilities(self, request: SampleRequest) -> dict[str, float]:
        """Log-probabilities of the ``COMPARED_TOKENS`` most probable first tokens, by the server's names of them."""
        wanted = {"logprobs": True, "top_logprobs": COMPARED_TOKENS} if self._chat else {"logprobs": COMPARED_TOKENS}
        ((_, reply),) = self._replies([self._body(request, 1, 0) | wanted])
        offered = reply["choices"][0].get("logprobs") or {}
        # llama-server writes those of both endpoints as those of a chat.
        if "content" in offered:
            named = {entry["token"]: entry["logprob"] for entry in offered["content"][0]["top_logprobs"]}
        else:
            named = (offered.get("top_logprobs") or [None])[0]
        if not named:
            raise EngineError(f"server {self._settings.base_url} offers no log-probabilities to verify an adapter by")
        # vLLM adds the sampled token where it is not among the most probable ones.
        return dict(sorted(named.items(), key=lambda item: -item[1])[:COMPARED_TOKENS])

    def served_models(self) -> list[str]:
        """Names of the models that the server has. Raises EngineError."""
        try:
            return [model.id for model in self._client.models.list()]
        except openai.OpenAIError as error:
            raise explained(error, self._settings) from error

    def _body(self, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        """A request for ``n`` samples that leaves no sampling setting to the server. Raises ConfigError."""
        body = {
            "model": self._served_model,
            "n": n,
            "seed": seed,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "max_tokens": request.max_new_tokens,
        }
        if self._chat:
            body |= {"messages": request.messages, "chat_template_kwargs": self._template_arguments}
        else:
            body["prompt"] = request.prompt_ids
        if not self._llama_cpp:
            return body | {
                "top_k": -1 if request.top_k is None else request.top_k,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "stop_token_ids": sorted(self._stop_ids),
                "return_token_ids": True,
            }
        if request.temperature != 1 and request.top_p != 1:
            raise ConfigError(
                "the dialect llama_cpp has another law for temperature and top_p together: llama.cpp applies top_p "
                "before the temperature; set one of them to 1"
            )
        body |= {"seed": seed % LLAMA_CPP_SEEDS, "top_k": request.top_k or 0, **LLAMA_CPP_OFF}
        # What the model reasons is part of its answer.
        return body | ({"reasoning_format": "none"} if self._chat else {})

    def _replies(self, bodies: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The place of each body and the reply to it, as they come. Raises EngineError behind the last of them.

        The threads are daemons: a process that is to end does not wait for their requests.
        """
        path = "/chat/completions" if self._chat else "/completions"
        replies: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()

        def post(place: int, body: Mapping[str, Any]) -> None:
            try:
                reply = self._client.post(path, body=dict(body), cast_to=object)
                if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list):
                    raise EngineError(f"{self._settings.base_url}: a reply has no choices: {str(reply)[:200]!r}")
            except Exception as error:
                reply = error
            replies.put((place, reply))

        left, under_way, failure = iter(enumerate(bodies)), 0, None
        while True:
            # Nothing new is started behind a failure.
            for item in itertools.islice(left, 0 if failure else self._settings.max_concurrency - under_way):
                threading.Thread(target=post, args=item, daemon=True).start()
                under_way += 1
            if not under_way:
                break
            place, reply = replies.get()
            under_way -= 1
            if isinstance(reply, Exception):
                failure = failure or reply
            else:
                yield place, reply
        if failure:
            raise explained(failure, self._settings)

    def _check_prompt(self, reply: Mapping[str, Any], choice: Mapping[str, Any], request: SampleRequest) -> None:
        """The answers must follow our tokens; vLLM tells them, llama.cpp counts them."""
        ours = list(request.prompt_ids)
        seen = reply.get("prompt_token_ids") or choice.get("prompt_token_ids")
        if seen is not None and list(seen) != ours:
            raise EngineError(
                f"the server's tokens of {request.key} differ from ours: {self._tokenizer.decode(seen)!r}, not "
                f"{self._tokenizer.decode(ours)!r}; engine.openai.endpoint completions sends ours"
            )
        counted = (reply.get("usage") or {}).get("prompt_tokens")
        if seen is None and counted not in (None, len(ours)):
            remedy = (
                "its chat template is another or was told otherwise; engine.openai.endpoint completions sends ours"
                if self._chat
                else "its tokenizer is another, or adds what ours does not"
            )
            raise EngineError(f"the server reads {request.key} as {counted} tokens where we have {len(ours)}: {remedy}")

    def _generation(
        self, choice: Mapping[str, Any], seed: int, request: SampleRequest, reply: Mapping[str, Any]
    ) -> Generation:
        reason = choice.get("finish_reason")
        if reason not in ("stop", "length"):
            raise EngineError(f"the server ended a sample of {request.key} for the reason {reason!r}")
        if self._llama_cpp:
            text = (choice["message"].get("content") if self._chat else choice["text"]) or ""
            generation = Generation(seed, text, reply["usage"]["completion_tokens"], reason)
        else:
            tokens = choice.get("token_ids")
            if tokens is None:
                raise EngineError(
                    f"{self._settings.base_url} does not return token ids, as vLLM does; see engine.openai.dialect"
                )
            generation = generation_from_tokens(
                self._tokenizer, tokens, seed, self._stop_ids, request.skip_special_tokens
            )
            if generation.finish_reason != reason:
                raise EngineError(
                    f"the server ended a sample of {request.key} for the reason {reason!r} behind the token "
                    f"{self._tokenizer.decode(tokens[-1:])!r}; the stop tokens are "
                    f"{[self._tokenizer.decode([token]) for token in sorted(self._stop_ids)]}"
                )
        count, limit = generation.num_tokens, request.max_new_tokens
        if count > limit:
            raise EngineError(f"the server's answer to {request.key} has {count} tokens where {limit} were asked for")
        if reason == "length" and count < limit:
            raise EngineError(
                f"the server cut its answer to {request.key} after {count} of {limit} tokens; does its context hold "
                f"the prompt's {len(request.prompt_ids)} and the answer?"
            )
        return generation


def explained(error: Exception, settings: OpenaiConfig) -> Exception:
    """An error of the client as one sentence that says what to change; any other error as it is."""
    server, attempts = settings.base_url, f"{settings.max_retries + 1} attempts"
    # The status, and the body of the reply on one line.
    reason = " ".join(str(error).split())[:LONGEST_REASON]
    match error:
        case openai.APITimeoutError():
            message = f"no reply within {settings.timeout_seconds:g} seconds, in {attempts}"
        case openai.APIConnectionError():
            message = f"cannot be reached, in {attempts} ({first_line(error.__cause__ or error)})"
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            key = settings.api_key_variable
            held = f"the key in {key}" if key else "requests without a key; name one in engine.openai.api_key_variable"
            message = f"refuses {held} ({reason})"
        case openai.NotFoundError():
            message = f"has no such model or endpoint ({reason})"
        case openai.BadRequestError() | openai.UnprocessableEntityError():
            message = f"refuses the request ({reason}); engine.openai.dialect says which fields are sent"
        case openai.APIStatusError():
            message = f"failed with status {error.status_code}, in {attempts} ({reason})"
        case openai.OpenAIError():
            message = first_line(error)
        case _:
            return error
    return EngineError(f"server {server}: {message}")


def open_openai(
    config: ModelConfig,
    settings: OpenaiConfig,
    model: str,
    condition: str,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    probe: SampleRequest,
    reasons: bool,
) -> OpenaiEngine:
    """Open a condition's model on a server, and verify that it is not the base model.

    Args:
        config: The checkpoint that the server is to serve.
        settings: Of the engine.
        model: Replaces ``{model}`` in ``base_url`` and ``served_models``.
        condition: A key of ``served_models``.
        tokenizer: Of the checkpoint; decodes replies with token ids.
        stop_ids: Tokens that end a generation.
        probe: A request on which an adapter must show.
        reasons: Whether the model is to reason before it answers, which its chat template is told.

    Raises:
        ConfigError: ``served_models`` or the endpoint does not fit the condition or the model.
        EngineError: The server cannot be reached or used.
        ModelError: It has no such model, or serves the base model under the adapter's name.
    """
    settings = replace(settings, base_url=settings.base_url.replace("{model}", model))
    names = {key: name.replace("{model}", model) for key, name in settings.served_models.items()}
    needed = dict.fromkeys(("base", condition))
    for key in needed:
        if key not in names:
            raise ConfigError(f"engine.openai.served_models: the condition {key} is missing; it has {', '.join(names)}")
    if condition != "base" and names[condition] == names["base"]:
        raise ConfigError(f"engine.openai.served_models: {condition} and base are both {names['base']!r}")
    chat = config.chat
    if settings.endpoint == "chat" and chat.answer_prefix and not reasons:
        raise ConfigError(
            f"engine.openai.endpoint: chat cannot open the answer of {model} with {chat.answer_prefix!r}; "
            "use completions"
        )
    arguments = chat.reasoning.template_arguments if reasons else chat.template_arguments
    base, engine = (OpenaiEngine(settings, names[key], tokenizer, stop_ids, arguments) for key in ("base", condition))
    served = engine.served_models()
    for key in needed:
        if names[key] not in served:
            raise ModelError(f"server {settings.base_url} has no model {names[key]!r} ({key}); it has {served}")
    if condition != "base":
        # The first request fills the server's prefix cache. A base model under another name finds the prompt there, and
        # reading it changes the last bits: compared with an answer that was not cached, it would look like an adapter.
        base.first_log_probabilities(probe)
        if base.first_log_probabilities(probe) == engine.first_log_probabilities(probe):
            raise ModelError(
                f"the server's model {names[condition]!r} has the base model's log-probabilities: no adapter is in "
                "effect"
            )
    return engine
