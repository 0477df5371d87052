"""The section ``engine`` of ``params.yaml``: what samples answers."""

from typing import Annotated, Literal

from pydantic import Field, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt, Probability


@dataclass(frozen=True, config=STRICT)
class VllmConfig:
    """vLLM in this process (requirements-vllm.txt)."""

    tensor_parallel_size: PositiveInt
    gpu_memory_utilization: Probability  # share that vLLM may take
    max_model_len: PositiveInt  # of a request with its answer, in tokens
    samples_per_request: PositiveInt  # from consecutive seeds; changes the draws, never the law
    requests_per_call: PositiveInt  # a killed run loses at most so many requests
    enforce_eager: bool  # without CUDA graphs: starts in seconds and decodes slower


@dataclass(frozen=True, config=STRICT)
class OpenaiConfig:
    """A server that speaks OpenAI's protocol. ``{model}`` in a value stands for the model's name in params.yaml."""

    base_url: str  # address of the server's API, e.g. http://localhost:8000/v1
    api_key_variable: str | None  # environment variable that holds the key; null for a server that wants none
    dialect: Literal["vllm", "llama_cpp"]
    """Request fields beyond OpenAI's that the server takes: those of ``vllm serve`` (stop token ids, several samples,
    token ids in replies) or of llama.cpp's ``llama-server`` (all its samplers, one sample per request)."""
    served_models: dict[str, str]  # name on the server by condition: base, soft, hard
    max_concurrency: PositiveInt
    samples_per_request: PositiveInt
    """Samples of one prompt asked for in one request, with the seed of the first. Changes the draws, never the law."""
    timeout_seconds: PositiveFloat
    max_retries: Annotated[StrictInt, Field(ge=0)]
    """Further attempts of a request that failed for a reason that may pass (no connection, 408, 409, 429, 5xx)."""

    @model_validator(mode="after")
    def _can_be_asked(self) -> "OpenaiConfig":
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url {self.base_url!r} must start with http:// or https://")
        if self.dialect == "llama_cpp" and self.samples_per_request != 1:
            raise ValueError(
                "dialect llama_cpp needs samples_per_request 1 (engine=llama_cpp sets both): llama-server takes as "
                "many as it has slots"
            )
        return self


@dataclass(frozen=True, config=STRICT)
class EngineConfig:
    """What samples answers. Only ``kind`` is part of a generation's identity."""

    kind: Literal["transformers", "vllm", "openai"]
    vllm: VllmConfig
    openai: OpenaiConfig


def samples_per_request(engine: EngineConfig) -> int:
    """Samples that are drawn together, and so kept or lost together; 1 where each has a stream of its own."""
    return 1 if engine.kind == "transformers" else getattr(engine, engine.kind).samples_per_request
