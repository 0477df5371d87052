"""The part of vLLM 0.33.0 that the pipeline uses, over the reference sampler.

Names, signatures, defaults and refusals are vLLM's; ``test_vllm_engine.py`` compares the signatures
with the real package wherever that is installed. What it cannot show is vLLM's own kernels.
"""

import inspect
import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from tests.reference_sampler import draw, next_log_probabilities

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
ENGINE_ARGUMENTS = (
    "max_model_len",
    "enable_prefix_caching",
    "generation_config",
    "load_format",
    "enable_lora",
    "max_loras",
    "max_lora_rank",
    "max_logprobs",
    "logprobs_mode",
    "disable_log_stats",
)


@dataclass(kw_only=True)
class SamplingParams:
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True

    def __post_init__(self):
        neutral = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty, self.top_k, self.min_p)
        assert neutral == (0.0, 0.0, 1.0, 0, 0.0), "the stand-in has no penalties, top_k or min_p"


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str = ""

    def __post_init__(self):
        if self.lora_int_id < 1:
            raise ValueError(f"id must be > 0, got {self.lora_int_id}")
        assert self.lora_path, "lora_path cannot be empty"


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]


class TokensPrompt(dict):
    def __init__(self, *, prompt_token_ids):
        super().__init__(prompt_token_ids=prompt_token_ids)


class LLM:
    calls: ClassVar[list["LLM"]] = []

    def __init__(
        self,
        model,
        *,
        trust_remote_code=False,
        tensor_parallel_size=1,
        dtype="auto",
        revision=None,
        tokenizer_revision=None,
        seed=0,
        gpu_memory_utilization=0.92,
        enforce_eager=False,
        **kwargs,
    ):
        from transformers import AutoModelForCausalLM

        unknown = set(kwargs) - set(ENGINE_ARGUMENTS)
        if unknown:
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {unknown.pop()!r}")
        assert not trust_remote_code and kwargs.get("load_format") == "safetensors"
        self.arguments = {"revision": revision, "tokenizer_revision": tokenizer_revision, "dtype": dtype, **kwargs}
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self.adapted = None
        self.requests: list[tuple[list[int], SamplingParams, LoRARequest | None]] = []
        LLM.calls.append(self)

    def _weights(self, lora):
        if lora is None:
            return self.model
        if not self.arguments.get("enable_lora"):
            raise ValueError(f"Got lora_request {lora} but LoRA is not enabled!")
        if self.adapted is None:
            from peft import PeftModel
            from transformers import AutoModelForCausalLM

            rank = json.loads((Path(lora.lora_path) / "adapter_config.json").read_text())["r"]
            limit = self.arguments["max_lora_rank"]
            assert limit in LORA_RANKS
            if rank > limit:
                raise ValueError(f"LoRA rank {rank} is greater than max_lora_rank {limit}.")
            base = AutoModelForCausalLM.from_pretrained(self.model.config._name_or_path, dtype=self.model.dtype)
            self.adapted = PeftModel.from_pretrained(base, lora.lora_path).eval()
        return self.adapted

    def generate(
        self,
        prompts,
        sampling_params=None,
        *,
        use_tqdm=True,
        lora_request=None,
        priority=None,
        tokenization_kwargs=None,
        mm_processor_kwargs=None,
    ):
        assert len(prompts) == len(sampling_params)
        return [
            self._answer(prompt["prompt_token_ids"], params, lora_request)
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]

    def _answer(self, prompt_ids, params, lora):
        self.requests.append((prompt_ids, params, lora))
        model, limit = self._weights(lora), self.arguments["max_model_len"]
        stops = set(params.stop_token_ids or ())
        if not params.ignore_eos:
            stops.add(self.model.config.eos_token_id)
        drawn = draw(
            model,
            prompt_ids,
            [params.seed + index for index in range(params.n)],
            temperature=params.temperature,
            top_p=params.top_p,
            max_tokens=min(params.max_tokens, limit - len(prompt_ids)),
            stops=lambda tokens: tokens[-1] in stops,
        )
        first = None
        if params.logprobs is not None:
            law = next_log_probabilities(model, prompt_ids)
            kept = {*law.topk(params.logprobs).indices.tolist(), drawn[0].tokens[0]}
            first = [{token: Logprob(float(law[token])) for token in kept}]
        outputs = [
            CompletionOutput(index, "", sample.tokens, None, first, sample.finish_reason)
            for index, sample in enumerate(drawn)
        ]
        # vLLM does not promise an order.
        return RequestOutput(prompt_ids, outputs[::-1])


def install(monkeypatch) -> None:
    """Put the stand-in where ``import vllm`` finds it."""
    LLM.calls.clear()
    package, inputs, lora, request = (
        types.ModuleType(name) for name in ("vllm", "vllm.inputs", "vllm.lora", "vllm.lora.request")
    )
    package.LLM, package.SamplingParams, package.RequestOutput = LLM, SamplingParams, RequestOutput
    inputs.TokensPrompt, request.LoRARequest = TokensPrompt, LoRARequest
    for module in (package, inputs, lora, request):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def parameters(callable_) -> dict[str, inspect.Parameter]:
    """Parameters of a signature by name, without ``self`` and ``**kwargs``."""
    found = inspect.signature(callable_).parameters.values()
    return {item.name: item for item in found if item.name != "self" and item.kind != item.VAR_KEYWORD}
