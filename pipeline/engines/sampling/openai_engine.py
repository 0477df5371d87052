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
from pipeline.engines.sampling.generate import Generation, generation_from_tokens
from pipeline.engines.sampling.text_engine import EngineError, Sample, SampleRequest, first_seed, seed_groups
from pipeline.errors import ConfigError, ModelError, first_line

COMPARED_TOKENS = 5
"""Most probable next tokens that are compared with and without an adapter; servers offer at least so many."""
LONGEST_REASON = 500
"""Characters that are shown of a server's reason for refusing."""
# What llama.cpp's samplers do beyond temperature, top-k and top-p, switched off.
LLAMA_CPP_OFF = {
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
    """Samples from one model of a server, ``served_model`` being its name there."""

    def __init__(
        self, settings: OpenaiConfig, served_model: str, tokenizer: PreTrainedTokenizerBase, stop_ids: set[int]
    ) -> None:
        """Raises ConfigError where the API key is not set, or llama.cpp does not end answers at one of ``stop_ids``."""
        self._settings, self._served_model = settings, served_model
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self._llama_cpp = settings.dialect == "llama_cpp"
        special = {token for token, entry in tokenizer.added_tokens_decoder.items() if entry.special}
        if self._llama_cpp and (others := sorted(stop_ids - special)):
            raise ConfigError(
                f"the stop token {tokenizer.decode(others[:1])!r} is not a special one, and the dialect llama_cpp has "
                "no other; engine.openai.dialect: vllm sends token ids"
            )
        # The client insists on a key; a server that wants none ignores it.
        variable = settings.api_key_variable
        if not (key := "none" if variable is None else os.environ.get(variable)):
            raise ConfigError(f"engine.openai.api_key_variable: the environment variable {variable} is not set")
        limits = {"timeout": settings.timeout_seconds, "max_retries": settings.max_retries}
        self._client = openai.OpenAI(base_url=settings.base_url, api_key=key, **limits)

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

    def first_log_probabilities(self, prompt_ids: list[int]) -> dict[str, float]:
        """Log-probabilities of the ``COMPARED_TOKENS`` most probable first tokens, by the server's names of them."""
        request = SampleRequest("probe", prompt_ids, {0: 0}, max_new_tokens=1)
        ((_, reply),) = self._replies([self._body(request, 1, 0) | {"logprobs": COMPARED_TOKENS}])
        offered = reply["choices"][0].get("logprobs") or {}
        # llama-server writes them as those of a chat.
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
            raise self._explained(error) from error

    def _body(self, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        """A request for ``n`` samples that leaves no sampling setting to the server. Raises ConfigError."""
        body = {
            "model": self._served_model,
            "prompt": request.prompt_ids,
            "n": n,
            "seed": seed,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_new_tokens,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        if not self._llama_cpp:
            stops = {"stop_token_ids": sorted(self._stop_ids), "return_token_ids": True, "repetition_penalty": 1.0}
            return body | stops | {"top_k": -1 if request.top_k is None else request.top_k}
        if request.temperature != 1 and request.top_p != 1:
            raise ConfigError(
                "the dialect llama_cpp has another law for temperature and top_p together: llama.cpp applies top_p "
                "before the temperature; set one of them to 1"
            )
        return body | {"seed": seed % LLAMA_CPP_SEEDS, "top_k": request.top_k or 0, **LLAMA_CPP_OFF}

    def _replies(self, bodies: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Places of bodies and their replies, as they come, then EngineError. Daemons keep no process waiting."""
        replies: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()

        def post(place: int, body: Mapping[str, Any]) -> None:
            try:
                reply = self._client.post("/completions", body=dict(body), cast_to=object)
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
            raise self._explained(failure)

    def _check_prompt(self, reply: Mapping[str, Any], choice: Mapping[str, Any], request: SampleRequest) -> None:
        """The answers must follow our tokens; vLLM tells them, llama.cpp counts them."""
        ours, seen = list(request.prompt_ids), reply.get("prompt_token_ids") or choice.get("prompt_token_ids")
        counted = len(seen) if seen is not None else (reply.get("usage") or {}).get("prompt_tokens")
        if (seen is not None and list(seen) != ours) or counted not in (None, len(ours)):
            raise EngineError(
                f"the server reads {request.key} as other tokens ({counted}) than ours ({len(ours)}): its tokenizer is "
                "another, or adds what ours does not"
            )

    def _generation(
        self, choice: Mapping[str, Any], seed: int, request: SampleRequest, reply: Mapping[str, Any]
    ) -> Generation:
        reason, limit = choice.get("finish_reason"), request.max_new_tokens
        if self._llama_cpp:
            generation = Generation(seed, choice["text"] or "", reply["usage"]["completion_tokens"], reason)
        else:
            tokens = choice.get("token_ids")
            if tokens is None:
                raise EngineError(
                    f"{self._settings.base_url} does not return token ids, as vLLM does; see engine.openai.dialect"
                )
            special = request.skip_special_tokens
            generation = generation_from_tokens(self._tokenizer, tokens, seed, self._stop_ids, special)
        count = generation.num_tokens
        if reason not in ("stop", "length") or generation.finish_reason != reason or count > limit:
            raise EngineError(
                f"the server ended a sample of {request.key} for the reason {reason!r} after {count} tokens, of which "
                f"there may be {limit}; {generation.text!r} would end for {generation.finish_reason!r}"
            )
        if reason == "length" and count < limit:
            raise EngineError(
                f"the server cut its answer to {request.key} after {count} of {limit} tokens; does its context hold "
                f"the prompt's {len(request.prompt_ids)} and the answer?"
            )
        return generation

    def _explained(self, error: Exception) -> Exception:
        """An error of the client as one sentence that says what to change; any other error as it is."""
        settings, attempts = self._settings, f"{self._settings.max_retries + 1} attempts"
        # The status, and the body of the reply on one line.
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        match error:
            case openai.APITimeoutError():
                message = f"no reply within {settings.timeout_seconds:g} seconds, in {attempts}"
            case openai.APIConnectionError():
                message = f"cannot be reached, in {attempts} ({first_line(error.__cause__ or error)})"
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                key = settings.api_key_variable
                held = f"the key in {key}" if key else "requests without a key (engine.openai.api_key_variable)"
                message = f"refuses {held} ({reason})"
            case openai.APIStatusError() if error.status_code in (400, 404, 422):
                message = f"refuses the request ({reason}); engine.openai.dialect says which fields are sent"
            case openai.OpenAIError():
                message = f"failed, in {attempts} ({reason})"
            case _:
                return error
        return EngineError(f"server {settings.base_url}: {message}")


def open_openai(
    settings: OpenaiConfig,
    model: str,
    condition: str,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    probe_ids: list[int],
) -> OpenaiEngine:
    """Open a condition's model on a server, and verify that it is not the base model by what shows behind
    ``probe_ids``.

    ``model`` replaces ``{model}`` in ``base_url`` and ``served_models``, of which ``condition`` is a key. Raises
    ConfigError, EngineError and ModelError.
    """
    settings = replace(settings, base_url=settings.base_url.replace("{model}", model))
    names = {key: name.replace("{model}", model) for key, name in settings.served_models.items()}
    needed = dict.fromkeys(("base", condition))
    for key in needed:
        if key not in names:
            raise ConfigError(f"engine.openai.served_models: the condition {key} is missing; it has {', '.join(names)}")
    if condition != "base" and names[condition] == names["base"]:
        raise ConfigError(f"engine.openai.served_models: {condition} and base are both {names['base']!r}")
    base, engine = (OpenaiEngine(settings, names[key], tokenizer, stop_ids) for key in ("base", condition))
    served = engine.served_models()
    for key in needed:
        if names[key] not in served:
            raise ModelError(f"server {settings.base_url} has no model {names[key]!r} ({key}); it has {served}")
    if condition != "base":
        # The first request fills the server's prefix cache. A base model under another name finds the prompt there, and
        # reading it changes the last bits: compared with an answer that was not cached, it would look like an adapter.
        base.first_log_probabilities(probe_ids)
        if base.first_log_probabilities(probe_ids) == engine.first_log_probabilities(probe_ids):
            raise ModelError(
                f"the server's model {names[condition]!r} has the base model's log-probabilities: no adapter is in "
                "effect"
            )
    return engine
