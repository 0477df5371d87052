"""The part of vLLM 0.33.0 that the pipeline uses, over the reference sampler.

Names, defaults and refusals are vLLM's. What it cannot show is vLLM's own kernels.
"""

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import torch

from tests.reference_sampler import draw, next_log_probabilities

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
ENGINE_ARGUMENTS = {
    *("model", "trust_remote_code", "tensor_parallel_size", "dtype", "revision", "tokenizer_revision", "seed"),
    *("gpu_memory_utilization", "enforce_eager", "max_model_len", "enable_prefix_caching", "generation_config"),
    *("load_format", "enable_lora", "max_loras", "max_lora_rank", "max_logprobs", "logprobs_mode"),
}


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
        assert self.lora_int_id >= 1 and self.lora_path


def answer(index, tokens, finish_reason, logprobs=None, stop_reason=None):
    """vLLM's CompletionOutput."""
    return SimpleNamespace(
        index=index, token_ids=tokens, logprobs=logprobs, finish_reason=finish_reason, stop_reason=stop_reason
    )


class LLM:
    calls: ClassVar[list["LLM"]] = []

    def __init__(self, **arguments):
        from transformers import AutoModelForCausalLM

        assert set(arguments) <= ENGINE_ARGUMENTS
        assert not arguments["trust_remote_code"] and arguments["load_format"] == "safetensors"
        self.arguments, self.requests, self.adapted = arguments, [], None
        self.model = AutoModelForCausalLM.from_pretrained(
            arguments["model"], dtype=getattr(torch, arguments["dtype"])
        ).eval()
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
            assert rank <= self.arguments["max_lora_rank"] in LORA_RANKS
            base = AutoModelForCausalLM.from_pretrained(self.model.config._name_or_path, dtype=self.model.dtype)
            self.adapted = PeftModel.from_pretrained(base, lora.lora_path).eval()
        return self.adapted

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None):
        return [
            SimpleNamespace(outputs=self._answer(prompt["prompt_token_ids"], params, lora_request))
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]

    def _answer(self, prompt_ids, params, lora):
        self.requests.append((prompt_ids, params, lora))
        model, limit = self._weights(lora), self.arguments["max_model_len"]
        stops = {*(params.stop_token_ids or ()), *(() if params.ignore_eos else [self.model.config.eos_token_id])}
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
            first = [{token: SimpleNamespace(logprob=float(law[token])) for token in kept}]
        outputs = [answer(index, sample.tokens, sample.finish_reason, first) for index, sample in enumerate(drawn)]
        # vLLM does not promise an order.
        return outputs[::-1]


def install(monkeypatch) -> None:
    """Put the stand-in where ``import vllm`` finds it."""
    LLM.calls.clear()
    members = {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams},
        "vllm.inputs": {"TokensPrompt": lambda prompt_token_ids: {"prompt_token_ids": prompt_token_ids}},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
    }
    for name, values in members.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
