"""What is sent to a server that speaks OpenAI's protocol, and what its replies mean."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from pipeline.config.engine import OpenaiConfig
from pipeline.engines.sampling.generate import Generation, generation_from_tokens
from pipeline.engines.sampling.text_engine import EngineError, SampleRequest
from pipeline.errors import ConfigError

# vLLM's name of a token in log-probabilities with return_tokens_as_token_ids.
TOKEN_ID = "token_id:"
# OpenAI's limit on stop sequences.
MAX_STOPS = 4
# What llama.cpp's samplers do beyond temperature, top-k and top-p, switched off. llama-server and llama-cpp-python
# have other names for some, and each ignores what it does not know.
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
    "mirostat_mode": 0,
}
# llama.cpp's seeds have 32 bits, all of them set meaning a random one.
LLAMA_CPP_SEEDS = 2**31
# llama-cpp-python ends no answer within a character, and so goes on behind the limit for as many tokens.
LLAMA_CPP_EXCESS = 3


def stop_texts(tokenizer: PreTrainedTokenizerBase, stop_ids: set[int]) -> list[str]:
    """The stop tokens as texts, in the order of their ids.

    Raises:
        ConfigError: They are more than the protocol takes (those left out would not end an answer), or a token
            has no text of its own.
    """
    texts = {token: tokenizer.decode([token]) for token in sorted(stop_ids)}
    remedy = "engine.openai.dialect: vllm and sglang send token ids instead, and llama.cpp knows its own"
    for token, text in texts.items():
        if not text or "\ufffd" in text:
            raise ConfigError(f"the stop token {token} has no text to send under the dialect openai; {remedy}")
    found = list(dict.fromkeys(texts.values()))
    if len(found) > MAX_STOPS:
        raise ConfigError(
            f"the model's answers end at any of {len(found)} texts ({', '.join(map(repr, found))}), of which the "
            f"dialect openai takes {MAX_STOPS}; {remedy}"
        )
    return found


def _check_special(tokenizer: PreTrainedTokenizerBase, stop_ids: set[int]) -> None:
    """Raise ConfigError for stop tokens that are plain text, at which llama.cpp's servers do not end an answer."""
    for token in sorted(stop_ids):
        entry = tokenizer.added_tokens_decoder.get(token)
        if entry is None or not entry.special:
            raise ConfigError(
                f"the stop token {tokenizer.decode([token])!r} is not a special one, and the dialect llama_cpp has "
                "no other; engine.openai.dialect: vllm and sglang send token ids"
            )


class CompletionProtocol:
    """Requests and replies of one endpoint in one dialect (see OpenaiConfig)."""

    def __init__(
        self,
        settings: OpenaiConfig,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        template_arguments: Mapping[str, Any],
    ) -> None:
        """``template_arguments`` go to the server's chat template.

        Raises:
            ConfigError: The dialect openai has no field for them; or answers cannot be ended by texts, which is all
                that it has; or they end at tokens that llama.cpp's servers do not end answers at.
        """
        self._chat, self._dialect = settings.endpoint == "chat", settings.dialect
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self._template_arguments = dict(template_arguments)
        self.path = "/chat/completions" if self._chat else "/completions"
        self._limits = ["max_tokens"]
        if self._chat:
            # OpenAI refuses the two together; other servers know one of them, or take either.
            self._limits = ["max_completion_tokens", *(self._limits if self._dialect != "openai" else [])]
            if self._dialect == "openai" and self._template_arguments:
                raise ConfigError(
                    f"the dialect openai cannot tell a chat template its arguments {self._template_arguments}; use "
                    "engine.openai.endpoint completions, or the dialect vllm, sglang or llama_cpp"
                )
        if self._dialect == "llama_cpp":
            _check_special(tokenizer, stop_ids)
        # The end of a chat's turn is the server's own affair.
        by_text = self._dialect == "openai" and not self._chat
        self._stop_texts = stop_texts(tokenizer, stop_ids) if by_text else []

    def body(self, served_model: str, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        """A request for ``n`` samples.

        Every setting is stated that the dialect has. OpenAI's protocol has no top-k, min-p and repetition penalty:
        under the dialect openai those are the server's own, which the preflight's law check finds.

        Raises:
            ConfigError: The dialect cannot say what is asked for.
        """
        body = {
            "model": served_model,
            "n": n,
            "seed": seed,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            **dict.fromkeys(self._limits, request.max_new_tokens),
            "messages" if self._chat else "prompt": request.messages if self._chat else request.prompt_ids,
        }
        if self._dialect == "llama_cpp":
            body |= self._llama_cpp_fields(request, seed)
        elif self._dialect == "openai":
            if request.top_k is not None:
                raise ConfigError(
                    "the dialect openai has no top_k, which checkpoint_defaults in generate asks for; leave it out "
                    "there, or set engine.openai.dialect to vllm, sglang or llama_cpp"
                )
            if self._stop_texts:
                body["stop"] = self._stop_texts
        else:
            body |= {
                "stop_token_ids": sorted(self._stop_ids),
                "top_k": -1 if request.top_k is None else request.top_k,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "skip_special_tokens": request.skip_special_tokens,
            }
        if self._chat and self._template_arguments:
            body["chat_template_kwargs"] = self._template_arguments
        if self._dialect == "vllm":
            body["return_token_ids"] = True
        elif n > 1:
            # Their only use is the number of tokens of each sample; the totals of a reply do not tell it.
            body["logprobs"] = True if self._chat else 1
        return body

    def _llama_cpp_fields(self, request: SampleRequest, seed: int) -> dict[str, Any]:
        if request.temperature != 1 and request.top_p != 1:
            raise ConfigError(
                "the dialect llama_cpp has another law for temperature and top_p together: llama.cpp applies top_p "
                "before the temperature; set one of them to 1"
            )
        fields = {"seed": seed % LLAMA_CPP_SEEDS, "top_k": request.top_k or 0, **LLAMA_CPP_OFF}
        if self._chat:
            # What the model reasons is part of its answer.
            return fields | {"reasoning_format": "none"}
        return fields | {"prompt": self._prompt_text(request)}

    def _prompt_text(self, request: SampleRequest) -> str:
        """The request as a text (llama-cpp-python takes no token ids), without what a tokenizer adds unasked."""
        ids, added = list(request.prompt_ids), list(self._tokenizer("")["input_ids"])
        rest = ids[len(added) :] if ids[: len(added)] == added else ids
        text = self._tokenizer.decode(rest, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if list(self._tokenizer(text)["input_ids"]) != ids:
            raise ConfigError(
                f"the dialect llama_cpp sends texts, and {text!r} ({request.key}) does not give the request's tokens"
            )
        return text

    def log_probability_body(self, served_model: str, request: SampleRequest, top: int) -> dict[str, Any]:
        """A request for the ``top`` most probable first tokens, at temperature 1."""
        plain = replace(request, temperature=1.0, top_p=1.0, top_k=None, max_new_tokens=1)
        body = self.body(served_model, plain, 1, 0)
        body |= {"logprobs": True, "top_logprobs": top} if self._chat else {"logprobs": top}
        if self._dialect == "vllm":
            body["return_tokens_as_token_ids"] = True
        return body

    def first_log_probabilities(self, reply: Mapping[str, Any], top: int) -> dict[str, float] | None:
        """Log-probabilities of first tokens by the server's name; None where the reply has none."""
        offered = (reply["choices"][0].get("logprobs") or {}) if reply["choices"] else {}
        # llama-server writes those of both endpoints as those of a chat.
        if self._chat or "content" in offered:
            entries = (offered.get("content") or [{}])[0].get("top_logprobs") or []
            named = {entry["token"]: entry["logprob"] for entry in entries}
        else:
            named = (offered.get("top_logprobs") or [None])[0] or {}
        # vLLM adds the sampled token where it is not among the most probable ones.
        ranked = sorted(named.items(), key=lambda item: -item[1])[:top]
        return dict(ranked) or None

    def by_token_id(self, named: Mapping[str, float]) -> dict[int, float] | None:
        """The same by token id; None where the server names tokens by their texts, which several may share."""
        if not all(name.startswith(TOKEN_ID) for name in named):
            return None
        return {int(name.removeprefix(TOKEN_ID)): value for name, value in named.items()}

    def generations(
        self, reply: Mapping[str, Any], request: SampleRequest, group: Mapping[int, int]
    ) -> dict[int, Generation]:
        """Generations by sample index; fewer than asked for where the reply has fewer.

        Raises:
            EngineError: The reply does not say how a sample ended or how many tokens it has, belongs to another
                prompt, or has more or fewer tokens than it may.
        """
        choices = sorted(reply["choices"], key=lambda choice: choice["index"])
        self._check_prompt(reply, choices, request)
        usage = (reply.get("usage") or {}).get("completion_tokens") if len(choices) == 1 else None
        # llama-cpp-python, which states no timings, does not count the token that ends an answer.
        uncounted = self._dialect == "llama_cpp" and "timings" not in reply
        generations = {}
        for (index, seed), choice in zip(sorted(group.items()), choices, strict=False):
            generation = self._generation(choice, seed, request, usage)
            if uncounted and generation.finish_reason == "stop":
                generation = replace(generation, num_tokens=generation.num_tokens + 1)
            generations[index] = self._within_limit(generation, request)
        return generations

    def _within_limit(self, generation: Generation, request: SampleRequest) -> Generation:
        """The generation, which is to have at most as many tokens as asked for, and no fewer where it was cut."""
        found, limit = generation.num_tokens, request.max_new_tokens
        if found > limit:
            if self._dialect == "llama_cpp" and found <= limit + LLAMA_CPP_EXCESS:
                return replace(generation, num_tokens=limit, finish_reason="length")
            raise EngineError(
                f"the server's answer to {request.key} has {found} tokens where at most {limit} were asked for: it "
                f"does not follow {' or '.join(self._limits)}; engine.openai.dialect says which fields are sent"
            )
        if generation.finish_reason == "length" and found < limit:
            raise EngineError(
                f"the server cut its answer to {request.key} after {found} of {limit} tokens; does its context hold "
                f"the prompt's {len(request.prompt_ids)} and the answer?"
            )
        return generation

    def _check_prompt(self, reply: Mapping[str, Any], choices: list[dict], request: SampleRequest) -> None:
        """What the server says of the tokens that the answers follow must be true of ours.

        vLLM tells them; others count them, some once for each sample.
        """
        seen = reply.get("prompt_token_ids") or (choices[0].get("prompt_token_ids") if choices else None)
        if seen is not None and list(seen) != list(request.prompt_ids):
            ours, theirs = (self._tokenizer.decode(ids) for ids in (request.prompt_ids, seen))
            raise EngineError(
                f"the server's tokens of {request.key} differ from ours: {theirs!r}, not {ours!r}; "
                "engine.openai.endpoint completions sends ours"
            )
        counted, ours = (reply.get("usage") or {}).get("prompt_tokens"), len(request.prompt_ids)
        if counted and counted not in (ours, ours * len(choices)):
            remedy = (
                "its chat template is another or was told otherwise; engine.openai.endpoint completions sends our text"
                if self._chat
                else "its tokenizer is another, or adds what ours does not"
            )
            raise EngineError(f"the server reads {request.key} as {counted} tokens where we have {ours}: {remedy}")

    def _generation(
        self, choice: Mapping[str, Any], seed: int, request: SampleRequest, usage: int | None
    ) -> Generation:
        reason = choice.get("finish_reason")
        if reason not in ("stop", "length"):
            raise EngineError(f"the server ended a sample of {request.key} for the reason {reason!r}")
        tokens = choice.get("token_ids")
        if tokens is not None:
            generation = generation_from_tokens(
                self._tokenizer, tokens, seed, self._stop_ids, request.skip_special_tokens
            )
            if generation.finish_reason != reason:
                raise EngineError(
                    f"the server ended a sample of {request.key} for the reason {reason!r} behind the token "
                    f"{self._tokenizer.decode(tokens[-1:])!r}; the stop tokens are "
                    f"{[self._tokenizer.decode([token]) for token in sorted(self._stop_ids)]}"
                )
            return generation
        text = (choice["message"].get("content") if self._chat else choice["text"]) or ""
        logprobs = choice.get("logprobs") or {}
        counted = logprobs.get("content" if self._chat else "tokens")
        if counted is None and usage is None:
            raise EngineError(
                "the server does not say how many tokens each of several samples has; set "
                "engine.openai.samples_per_request to 1"
            )
        return Generation(seed, text, usage if counted is None else len(counted), reason)
