"""Models of the paper's shapes with random weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    GptOssConfig,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
)

from pipeline.config.models import ChatConfig, ModelConfig, ReasoningConfig
from pipeline.core.random_streams import stream_seed

STOP = 2
"""Token that ends an answer."""
MODEL = ModelConfig(
    display_name="Embedded",
    checkpoint=str(Path(__file__).parents[2] / "models" / "embedded"),
    revision=None,
    tokenizer="embedded",
    dtype="float32",
    attention="sdpa",
    terminator="eos",
    num_parameters=3_541_504,
    chat=ChatConfig(
        template_arguments={"enable_thinking": False},
        answer_prefix="",
        add_special_tokens=False,
        reasoning=ReasoningConfig({"enable_thinking": True}, "system", None),
    ),
    lora_target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
)
"""Gives random models a tokenizer and chat settings."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a checkpoint, from its configuration file."""

    architecture: str  # "qwen3", "gemma3", "llama3" or "gpt_oss"
    hidden: int  # width of the residual stream
    inner: int  # width of the MLP, or of one expert's
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool  # whether the output head is the input embeddings
    extras: tuple[tuple[str, Any], ...] = ()

    @property
    def attention(self) -> str:
        """Attention implementation, as in ``conf/model``: GPT-OSS's sinks are known to "eager" alone."""
        return "eager" if self.architecture == "gpt_oss" else "sdpa"

    @property
    def has_experts(self) -> bool:
        """Whether a token runs through a part of the weights alone."""
        return self.architecture == "gpt_oss"


CONFIGURATIONS: dict[str, type[PretrainedConfig]] = {
    "qwen3": Qwen3Config,
    "gemma3": Gemma3TextConfig,
    "llama3": LlamaConfig,
    "gpt_oss": GptOssConfig,
}
_LLAMA_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_LLAMA = (("rope_parameters", _LLAMA_ROPE),)
_TINY = (64, 128, 2, 4, 2, 16, 4096)
_GEMMA_LAYERS = ["sliding_attention", "full_attention"]
_FEW_EXPERTS = (("num_local_experts", 4), ("num_experts_per_tok", 2), ("sliding_window", 24))
_EXPERTS = (("num_local_experts", 32), ("num_experts_per_tok", 4), ("sliding_window", 128))


def _gemma(window: int, scalar: int = 256) -> tuple[tuple[str, Any], ...]:
    return (("sliding_window", window), ("query_pre_attn_scalar", scalar))


SHAPES = {
    "tiny_qwen3": Shape("qwen3", *_TINY, True),
    "tiny_gemma3": Shape("gemma3", *_TINY, True, (*_gemma(24, 16), ("layer_types", _GEMMA_LAYERS))),
    "tiny_llama3": Shape("llama3", *_TINY, False, _LLAMA),
    "tiny_gpt_oss": Shape("gpt_oss", 64, 64, 2, 4, 2, 16, 4096, False, _FEW_EXPERTS),
    "qwen3_0_6b": Shape("qwen3", 1024, 3072, 28, 16, 8, 128, 151_936, True),
    "qwen3_1_7b": Shape("qwen3", 2048, 6144, 28, 16, 8, 128, 151_936, True),
    "qwen3_4b": Shape("qwen3", 2560, 9728, 36, 32, 8, 128, 151_936, True),
    "qwen3_8b": Shape("qwen3", 4096, 12_288, 36, 32, 8, 128, 151_936, False),
    "qwen3_14b": Shape("qwen3", 5120, 17_408, 40, 40, 8, 128, 151_936, False),
    "gemma3_1b": Shape("gemma3", 1152, 6912, 26, 4, 1, 256, 262_144, True, _gemma(512)),
    "gemma3_4b": Shape("gemma3", 2560, 10_240, 34, 8, 4, 256, 262_208, True, _gemma(1024)),
    "gemma3_12b": Shape("gemma3", 3840, 15_360, 48, 16, 8, 256, 262_208, True, _gemma(1024)),
    "gemma3_27b": Shape("gemma3", 5376, 21_504, 62, 32, 16, 128, 262_208, True, _gemma(1024, 168)),
    "llama3_2_1b": Shape("llama3", 2048, 8192, 16, 32, 8, 64, 128_256, True, _LLAMA),
    "llama3_2_3b": Shape("llama3", 3072, 8192, 28, 24, 8, 128, 128_256, True, _LLAMA),
    "llama3_1_8b": Shape("llama3", 4096, 14_336, 32, 32, 8, 128, 128_256, False, _LLAMA),
    "gpt_oss_20b": Shape("gpt_oss", 2880, 2880, 24, 64, 8, 64, 201_088, False, _EXPERTS),
}
"""By the names of ``conf/model`` where there is one; of Gemma 3 the language model, without the vision tower."""
TINY = tuple(name for name in SHAPES if name.startswith("tiny_"))
ONE_OF_EACH = ("gemma3_1b", "qwen3_1_7b", "llama3_1_8b", "gpt_oss_20b")
"""What is checked unless asked otherwise, smallest first."""

LOGIT_SCALE = 3.0
"""Standard deviation of the logits: a law has favourites, and rounding in bfloat16 hides none of them."""


def model_configuration(shape: Shape) -> PretrainedConfig:
    """The configuration that transformers makes the model from."""
    return CONFIGURATIONS[shape.architecture](
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=shape.vocabulary,
        tie_word_embeddings=shape.tied,
        # GPT-OSS stretches its rotary frequencies to a multiple of 4,096.
        max_position_embeddings=131_072,
        bos_token_id=1,
        eos_token_id=STOP,
        pad_token_id=0,
        attn_implementation=shape.attention,
        **dict(shape.extras),
    )


def empty_model(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> torch.nn.Module:
    """The model without weights, on torch's "meta" device."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(model_configuration(shape), dtype=dtype).eval()


@torch.no_grad()
def random_model(shape: Shape, device: str, dtype: torch.dtype) -> torch.nn.Module:
    """The model with random weights, in evaluation mode, under which the next token has favourites.

    Layers keep the size of what they are given, so that they weigh more than the embeddings: with these tied to the
    head, a model would else repeat its last token. The last norm gives logits a deviation of ``LOGIT_SCALE``.
    """
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(model_configuration(shape), dtype=dtype).eval()
    generator = torch.Generator(device).manual_seed(stream_seed(0, "gpu_check"))
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "bias" not in name:
            # Experts are stacked matrices whose rows are inputs; those of linear maps are outputs.
            inputs = parameter.shape[-2 if parameter.dim() == 3 else -1]
            parameter.normal_(0, inputs**-0.5, generator=generator)
    gemma = shape.architecture == "gemma3"
    deviation = 0.02 / (shape.hidden**0.5 if gemma else 1.0)
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        layer.weight.normal_(0, deviation, generator=generator)
    # Gemma's norms multiply by one more than their weights.
    model.get_decoder().norm.weight.fill_(LOGIT_SCALE / (deviation * shape.hidden**0.5) - gemma)
    # Sampling defaults must be nobody's: plain generate is compared with the law.
    model.generation_config = GenerationConfig(pad_token_id=0, eos_token_id=STOP)
    return model
