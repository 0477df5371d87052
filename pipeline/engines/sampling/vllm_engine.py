"""vLLM in this process: many prompts per call, several samples per request, adapters as LoRA requests.

Checked against vLLM 0.33.0. There, the n samples of a request have the seeds ``seed + i``. ``generation_config="vllm"``
leaves nothing to the checkpoint's own sampling defaults, and ``ignore_eos`` makes our stop ids the only ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from pipeline.artifacts.storage import read_json
from pipeline.config.engine import VllmConfig
from pipeline.config.models import ModelConfig
from pipeline.engines.sampling.text_engine import EngineError, Sample, SampleRequest, checked_samples, seed_groups
from pipeline.errors import ConfigError, ModelError, first_line

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

COMPARED_TOKENS = 20  # most probable next tokens whose log-probabilities are compared with and without an adapter
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # values that vLLM's max_lora_rank may have


@dataclass(frozen=True)
class VllmEngine:
    """Samples with vLLM's offline engine, every request through ``adapter`` where there is one."""

    llm: "LLM"
    tokenizer: PreTrainedTokenizerBase
    stop_ids: set[int]
    settings: VllmConfig
    adapter: Path | None = None

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine."""
        for request in requests:
            if request.constraint is not None:
                raise EngineError("engine.kind vllm: cannot decode under a constraint; use transformers")
            length = len(request.prompt_ids) + request.max_new_tokens
            if length > self.settings.max_model_len:
                raise EngineError(
                    f"engine.vllm.max_model_len: {self.settings.max_model_len} is too short for {request.key}, which "
                    f"may take {length} tokens"
                )
        size, together = self.settings.samples_per_request, self.settings.requests_per_call
        pairs = [(request, group) for request in requests for group in seed_groups(request.seeds, size)]
        for start in range(0, len(pairs), together):
            call = pairs[start : start + together]
            params = [self._params(request, len(group), next(iter(group.values()))) for request, group in call]
            outputs = self._generate([request.prompt_ids for request, _ in call], params)
            for (request, group), output in zip(call, outputs, strict=True):
                answers = sorted(output.outputs, key=lambda answer: answer.index)
                yield checked_samples(
                    request,
                    group,
                    [(answer.token_ids, answer.finish_reason) for answer in answers],
                    self.tokenizer,
                    self.stop_ids,
                )

    def _params(self, request: SampleRequest, n: int, seed: int) -> "SamplingParams":
        from vllm import SamplingParams

        return SamplingParams(
            n=n,
            seed=seed,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k or 0,
            min_p=0.0,
            repetition_penalty=1.0,
            max_tokens=request.max_new_tokens,
            stop_token_ids=sorted(self.stop_ids),
            ignore_eos=True,
            # Texts are decoded here, with the same tokenizer for every engine.
            detokenize=False,
            skip_special_tokens=request.skip_special_tokens,
        )

    def _generate(self, prompts: list[list[int]], params: list["SamplingParams"]) -> list["RequestOutput"]:
        from vllm.inputs import TokensPrompt
        from vllm.lora.request import LoRARequest

        lora = None
        if self.adapter is not None:
            lora = LoRARequest(lora_name=self.adapter.name, lora_int_id=1, lora_path=str(self.adapter.resolve()))
        tokens = [TokensPrompt(prompt_token_ids=ids) for ids in prompts]
        return self.llm.generate(tokens, params, use_tqdm=False, lora_request=lora)

    def first_log_probabilities(self, prompt_ids: list[int]) -> dict[int, float]:
        """Of the ``COMPARED_TOKENS`` most probable first tokens ("raw_logprobs": before temperature and top-p)."""
        from vllm import SamplingParams

        options = {"max_tokens": 1, "temperature": 1.0, "detokenize": False, "ignore_eos": True}
        (output,) = self._generate([prompt_ids], [SamplingParams(seed=0, logprobs=COMPARED_TOKENS, **options)])
        return {token: entry.logprob for token, entry in output.outputs[0].logprobs[0].items()}


def open_vllm(
    config: ModelConfig,
    settings: VllmConfig,
    revision: str | None,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    adapter: Path | None,
    probe_ids: list[int],
) -> VllmEngine:
    """Load a checkpoint into vLLM; an ``adapter`` must show after ``probe_ids``. Raises ConfigError and ModelError."""
    try:
        from vllm import LLM
    except ImportError as error:
        raise ConfigError(
            f"engine.kind: vllm needs the packages in requirements-vllm.txt ({first_line(error)})"
        ) from None
    lora: dict[str, Any] = {}
    if adapter is not None:
        rank = read_json(adapter / "adapter_config.json")["r"]
        allowed = min((allowed for allowed in LORA_RANKS if allowed >= rank), default=rank)
        lora = {"enable_lora": True, "max_loras": 1, "max_lora_rank": allowed}
    try:
        llm = LLM(
            model=config.checkpoint,
            revision=revision or config.revision,
            tokenizer_revision=revision or config.revision,
            trust_remote_code=False,
            load_format="safetensors",
            dtype=config.dtype,
            tensor_parallel_size=settings.tensor_parallel_size,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            max_model_len=settings.max_model_len,
            enforce_eager=settings.enforce_eager,
            enable_prefix_caching=True,
            generation_config="vllm",
            logprobs_mode="raw_logprobs",
            max_logprobs=-1,
            seed=0,
            **lora,
        )
        plain = VllmEngine(llm, tokenizer, stop_ids, settings)
        if adapter is None:
            return plain
        adapted = replace(plain, adapter=adapter)
        before, after = (engine.first_log_probabilities(probe_ids) for engine in (plain, adapted))
    except Exception as error:  # vLLM, torch and safetensors each raise their own types
        raise ModelError(f"vLLM cannot load {adapter or config.checkpoint}: {' '.join(str(error).split())}") from error
    if before == after:
        raise ModelError(f"adapter {adapter} does not change the log-probabilities of the model in vLLM")
    return adapted
