"""What is sent to a server that speaks OpenAI's protocol, and what its replies mean."""

from collections.abc import Mapping
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


def stop_texts(tokenizer: PreTrainedTokenizerBase, stop_ids: set[int]) -> list[str]:
    """The stop tokens as texts, in the order of their ids.

    Raises:
        ConfigError: They are more than the protocol takes (those left out would not end an answer), or a token
            has no text of its own.
    """
    texts = {token: tokenizer.decode([token]) for token in sorted(stop_ids)}
    remedy = "engine.openai.dialect: vllm and sglang send token ids instead"
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


class CompletionProtocol:
    """Requests and replies of one endpoint in one dialect (see OpenaiConfig)."""

    def __init__(
        self,
        settings: OpenaiConfig,
        tokenizer: PreTrainedTokenizerBase,
        stop_ids: set[int],
        template_arguments: Mapping[str, Any],
    ) -> None:
        """``template_arguments`` go to the server's chat template, where the dialect has them.

        Raises:
            ConfigError: Answers cannot be ended by texts, which is all that the dialect openai has.
        """
        self._chat, self._dialect = settings.endpoint == "chat", settings.dialect
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self._template_arguments = dict(template_arguments)
        self.path = "/chat/completions" if self._chat else "/completions"
        # The end of a chat's turn is the server's own affair.
        by_text = self._dialect == "openai" and not self._chat
        self._stop_texts = stop_texts(tokenizer, stop_ids) if by_text else []

    def body(self, served_model: str, request: SampleRequest, n: int, seed: int) -> dict[str, Any]:
        """A request for ``n`` samples. Every setting is stated, so no default of the server's plays a part."""
        body = {
            "model": served_model,
            "n": n,
            "seed": seed,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "max_completion_tokens" if self._chat else "max_tokens": request.max_new_tokens,
            "messages" if self._chat else "prompt": request.messages if self._chat else request.prompt_ids,
        }
        if self._dialect == "openai":
            if request.top_k is not None:
                raise ConfigError(
                    "the dialect openai has no top_k, which checkpoint_defaults in generate asks for; leave it out "
                    "there, or set engine.openai.dialect to vllm or sglang"
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

    def log_probability_body(self, served_model: str, request: SampleRequest, top: int) -> dict[str, Any]:
        """A request for the ``top`` most probable first tokens, at temperature 1."""
        body = self.body(served_model, request, 1, 0)
        body |= {"temperature": 1.0, "top_p": 1.0, "max_completion_tokens" if self._chat else "max_tokens": 1}
        body |= {"logprobs": True, "top_logprobs": top} if self._chat else {"logprobs": top}
        if self._dialect == "vllm":
            body["return_tokens_as_token_ids"] = True
        return body

    def first_log_probabilities(self, reply: Mapping[str, Any], top: int) -> dict[str, float] | None:
        """Log-probabilities of first tokens by the server's name; None where the reply has none."""
        offered = (reply["choices"][0].get("logprobs") or {}) if reply["choices"] else {}
        if self._chat:
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
            EngineError: The reply does not say how a sample ended or how many tokens it has, or belongs
                to another prompt.
        """
        choices = sorted(reply["choices"], key=lambda choice: choice["index"])
        self._check_prompt(reply, choices, request)
        usage = (reply.get("usage") or {}).get("completion_tokens") if len(choices) == 1 else None
        return {
            index: self._generation(choice, seed, request, usage)
            for (index, seed), choice in zip(sorted(group.items()), choices, strict=False)
        }

    def _check_prompt(self, reply: Mapping[str, Any], choices: list[dict], request: SampleRequest) -> None:
        """vLLM says which tokens the answers follow: its template must make the same of the messages as ours."""
        seen = reply.get("prompt_token_ids") or (choices[0].get("prompt_token_ids") if choices else None)
        if seen is not None and list(seen) != list(request.prompt_ids):
            ours, theirs = (self._tokenizer.decode(ids) for ids in (request.prompt_ids, seen))
            raise EngineError(
                f"the server's tokens of {request.key} differ from ours: {theirs!r}, not {ours!r}; "
                "engine.openai.endpoint completions sends ours"
            )

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
