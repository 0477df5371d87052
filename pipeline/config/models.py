"""A checkpoint in ``params.yaml``: where it is, how it is loaded, and how it is asked."""

from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, Dtype, PositiveInt


@dataclass(frozen=True, config=STRICT)
class ReasoningConfig:
    """How a request becomes the model's input where the model is to reason first (String Seed of Thought)."""

    template_arguments: dict[str, Any]  # of the chat template, e.g. enable_thinking: true
    instruction_role: Literal["system", "developer"]
    answer_channel: str | None
    """Harmony channel with the answer ("final"); null where the answer is in a tag of plain text."""


@dataclass(frozen=True, config=STRICT)
class ChatConfig:
    """How a request becomes the model's input."""

    template_arguments: dict[str, Any]
    answer_prefix: str  # text appended after the generation prompt (Harmony's final channel); empty for most models
    add_special_tokens: bool
    """Whether the tokenizer adds its special tokens to what the template has printed; true gives a second BOS token
    where the template prints one (Gemma, Llama), as the released code does."""
    reasoning: ReasoningConfig


@dataclass(frozen=True, config=STRICT)
class ModelConfig:
    """One checkpoint and all that differs between model families."""

    display_name: str
    checkpoint: str  # local directory or hub repository
    revision: str | None  # commit of a hub repository; null takes the current one, which check_model records
    num_parameters: PositiveInt  # for estimates of cost
    tokenizer: str  # name under which models with the same tokenizer share tries
    dtype: Dtype  # of weights and activations, in conf/ also "auto"; that of adapters is ``train.adapter_dtype``
    attention: Literal["sdpa", "eager", "flash_attention_2", "flex_attention"]
    terminator: str  # token that ends the model's turn; "eos" takes the tokenizer's EOS token
    lora_target_modules: Annotated[list[str], Field(min_length=1)]
    chat: ChatConfig
