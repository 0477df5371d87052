"""A server over HTTP in OpenAI's protocol, as ``vllm serve`` extends it, or llama.cpp's ``llama-server``.

At most ``max_concurrency`` requests run side by side. The client repeats what may pass; a request that fails for good
ends the run, after those under way have been handed over. Ctrl-C and SIGTERM do not wait for them.
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
from pipeline.engines.sampling.generate import Generation
from pipeline.engines.sampling.text_engine import EngineError, Sample, SampleRequest, checked_samples, seed_groups
from pipeline.errors import ConfigError, ModelError, first_line

COMPARED_TOKENS = 5
"""Most probable next tokens that are compared with and without an adapter; servers offer at least so many."""
LONGEST_REASON = 500  # characters that are shown of a server's reason for refusing

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
        """Raises ConfigError where the API key is not set."""
        self._settings, self._served_model = settings, served_model
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
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
        bodies = [self._body(request, len(group), next(iter(group.values()))) for request, group in asked]
        for place, reply in self._replies(bodies):
            request, group = asked[place]
            yield self._samples(reply, request, group)

    def _samples(self, reply: Mapping[str, Any], request: SampleRequest, group: Mapping[int, int]) -> list[Sample]:
        """The samples in a reply. Raises EngineError where it is not an answer to our tokens, or not whole."""
        choices = sorted(reply["choices"], key=lambda choice: choice["index"])
        seen = reply.get("prompt_token_ids") or (choices or [{}])[0].get("prompt_token_ids")
        if seen is not None and list(seen) != list(request.prompt_ids):
            raise EngineError(
                f"the server reads {request.key} as other tokens ({len(seen)}) than ours "
                f"({len(request.prompt_ids)}): it adds what ours does not"
            )
        if any(choice.get("token_ids") is None for choice in choices):
            raise EngineError(
                f"{self._settings.base_url} does not return token ids, as vLLM does; engine=llama_cpp is for llama.cpp"
            )
        answers = [(choice["token_ids"], choice.get("finish_reason")) for choice in choices]
        return checked_samples(request, group, answers, self._tokenizer, self._stop_ids)

    def first_log_probabilities(self, prompt_ids: list[int]) -> dict[str, float]:
        """Log-probabilities of the ``COMPARED_TOKENS`` most probable first tokens, by the server's names of them."""
        request = SampleRequest("probe", prompt_ids, {0: 0}, max_new_tokens=1)
        ((_, reply),) = self._replies([self._body(request, 1, 0) | {"logprobs": COMPARED_TOKENS}])
        top = self._most_probable(reply["choices"][0])
        if not top:
            raise EngineError(f"server {self._settings.base_url} offers no log-probabilities to verify an adapter by")
        # vLLM adds the sampled token where it is not among the most probable ones.
        return dict(sorted(top.items(), key=lambda item: -item[1])[:COMPARED_TOKENS])

    def _most_probable(self, choice: Mapping[str, Any]) -> dict[str, float]:
        """Log-probabilities of the most probable first tokens of a choice; empty where it has none."""
        return ((choice.get("logprobs") or {}).get("top_logprobs") or [{}])[0]

    def served_models(self) -> list[str]:
        """Names of the models that the server has. Raises EngineError."""
        try:
            return [model.id for model in self._client.models.list()]
        except openai.OpenAIError as error:
            raise self._explained(error) from error

    def _body(self, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        """A request for ``n`` samples that leaves no sampling setting to the server."""
        return {
            "model": self._served_model,
            "prompt": request.prompt_ids,
            "n": n,
            "seed": seed,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": -1 if request.top_k is None else request.top_k,
            "max_tokens": request.max_new_tokens,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": sorted(self._stop_ids),
            "return_token_ids": True,
        }

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

    def _explained(self, error: Exception) -> Exception:
        """An error of the client as one sentence that says what to change; any other error as it is."""
        if not isinstance(error, openai.OpenAIError):
            return error
        settings = self._settings
        # The status, and the body of the reply on one line.
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        if isinstance(error, openai.APITimeoutError):
            reason = f"no reply within {settings.timeout_seconds:g} seconds"
        elif isinstance(error, openai.APIConnectionError):
            reason = f"cannot be reached ({first_line(error.__cause__ or error)})"
        elif isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            key = settings.api_key_variable
            held = f"the key in {key}" if key else "requests without a key (engine.openai.api_key_variable)"
            reason = f"refuses {held} ({reason})"
        return EngineError(f"server {settings.base_url}: {reason}, in {settings.max_retries + 1} attempts at most")


class LlamaCppEngine(OpenaiEngine):
    """Samples from one model of llama.cpp's ``llama-server``: one a request, with tokens counted and not told."""

    def __init__(
        self, settings: OpenaiConfig, served_model: str, tokenizer: PreTrainedTokenizerBase, stop_ids: set[int]
    ) -> None:
        """Raises ConfigError where the API key is not set, or the server does not end answers at ``stop_ids``."""
        super().__init__(settings, served_model, tokenizer, stop_ids)
        special = {token for token, entry in tokenizer.added_tokens_decoder.items() if entry.special}
        if others := sorted(stop_ids - special):
            raise ConfigError(
                f"the stop token {tokenizer.decode(others[:1])!r} is not a special one, and the dialect llama_cpp has "
                "no other; engine.openai.dialect: vllm sends token ids"
            )

    def _body(self, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        if request.temperature != 1 and request.top_p != 1:
            raise ConfigError(
                "the dialect llama_cpp has another law for temperature and top_p together: llama.cpp applies top_p "
                "before the temperature; set one of them to 1"
            )
        body = super()._body(request, n, seed % LLAMA_CPP_SEEDS)
        for field in ("stop_token_ids", "return_token_ids", "repetition_penalty"):
            del body[field]
        return body | {"top_k": request.top_k or 0, **LLAMA_CPP_OFF}

    def _samples(self, reply: Mapping[str, Any], request: SampleRequest, group: Mapping[int, int]) -> list[Sample]:
        ((index, seed),), (choice,), usage = group.items(), reply["choices"], reply["usage"]
        if usage["prompt_tokens"] != len(request.prompt_ids):
            raise EngineError(
                f"the server reads {request.key} as other tokens ({usage['prompt_tokens']}) than ours "
                f"({len(request.prompt_ids)}): it adds what ours does not"
            )
        count, limit, reason = usage["completion_tokens"], request.max_new_tokens, choice.get("finish_reason")
        if reason not in ("stop", "length") or count > limit or (reason == "length" and count < limit):
            raise EngineError(
                f"sample {index} of {request.key} ended for the reason {reason!r} after {count} of {limit} tokens; "
                f"does the context hold the prompt's {len(request.prompt_ids)} and the answer?"
            )
        return [Sample(request.key, index, Generation(seed, choice["text"] or "", count, reason))]

    def _most_probable(self, choice: Mapping[str, Any]) -> dict[str, float]:
        # Written as those of a chat.
        content = (choice.get("logprobs") or {}).get("content") or [{"top_logprobs": []}]
        return {entry["token"]: entry["logprob"] for entry in content[0]["top_logprobs"]}


def open_openai(
    settings: OpenaiConfig,
    model: str,
    condition: str,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    probe_ids: list[int],
) -> OpenaiEngine:
    """Open a condition's model on a server, and verify by ``probe_ids`` that it is not the base model.

    ``model`` replaces ``{model}`` in the settings. Raises ConfigError, EngineError and ModelError.
    """
    settings = replace(settings, base_url=settings.base_url.replace("{model}", model))
    names = {key: name.replace("{model}", model) for key, name in settings.served_models.items()}
    needed = dict.fromkeys(("base", condition))
    for key in needed:
        if key not in names:
            raise ConfigError(f"engine.openai.served_models: the condition {key} is missing; it has {', '.join(names)}")
    if condition != "base" and names[condition] == names["base"]:
        raise ConfigError(f"engine.openai.served_models: {condition} and base are both {names['base']!r}")
    kind = LlamaCppEngine if settings.dialect == "llama_cpp" else OpenaiEngine
    base, engine = (kind(settings, names[key], tokenizer, stop_ids) for key in ("base", condition))
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
