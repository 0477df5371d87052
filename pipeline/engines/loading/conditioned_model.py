"""Open a model under a condition: the base checkpoint, or with a trained adapter, and how it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.config.evaluation import BASELINES, GenerateConfig, PackedBaselineConfig
from pipeline.config.params import CONDITIONS, METHODS, ModelConfig, Params
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.protocols import AnswerProtocol
from pipeline.errors import ConfigError
from pipeline.stages.check_model import model_revision


def adapter_inputs(condition: str, adapters: Path) -> list[Path]:
    """Files of the condition's adapter; none for the base checkpoint. Raises ConfigError."""
    allowed = (*CONDITIONS, *BASELINES)
    if condition not in allowed:
        raise ConfigError(f"--condition: {condition!r} is not allowed; choose one of {', '.join(allowed)}")
    if not has_adapter(condition):
        return []
    return [adapters / condition / name for name in ("adapter_model.safetensors", "adapter_config.json")]


def has_adapter(condition: str) -> bool:
    """Whether the condition is a trained adapter; the baselines are ways to ask the base checkpoint."""
    return condition in METHODS


def answer_protocol(config: Params, model: str, condition: str) -> AnswerProtocol:
    """How the condition asks the model, and finds the answers in its replies."""
    settings = getattr(config.generate, condition) if condition in BASELINES else None
    packed = settings.answers_per_request if isinstance(settings, PackedBaselineConfig) else 1
    return AnswerProtocol(condition, packed, config.model(model).chat.reasoning.answer_channel)


def read_answers(protocol: AnswerProtocol, generations: pd.DataFrame) -> list[list[str | Invalid]]:
    """The answers in each generation, or why there is none, in the table's order."""
    rows = generations[["text", "seed", "finish_reason"]].itertuples(index=False, name=None)
    return [protocol.answers(text, seed, reason == "length") for text, seed, reason in rows]


def generation_settings(config: Params, axis: str, condition: str) -> GenerateConfig:
    """Sampling settings of a condition on an axis: a baseline has its own, the others the axis's."""
    return getattr(config.generate, condition if condition in BASELINES else axis)


@dataclass(frozen=True)
class ConditionedModel:
    """A model ready to sample or score.

    Attributes:
        model: In evaluation mode on ``device``, adapter loaded.
        tokenizer: Its tokenizer.
        encode: Request text to token ids.
        encode_messages: Chat messages to token ids; the second argument says whether the model
            is to reason before it answers.
        stop_ids: Tokens that end a generation.
        device: "cuda" or "cpu".
    """

    model: Any
    tokenizer: Any
    encode: Callable[[str], list[int]]
    encode_messages: Callable[[Sequence[Mapping[str, str]], bool], list[int]]
    stop_ids: set[int]
    device: str


def message_encoder(tokenizer: Any, config: ModelConfig) -> Callable[[Sequence[Mapping[str, str]], bool], list[int]]:
    """``ConditionedModel.encode_messages`` of a tokenizer."""
    from pipeline.engines.loading import chat

    def encode_messages(messages: Sequence[Mapping[str, str]], reasons: bool) -> list[int]:
        if reasons:
            return chat.encode_messages(tokenizer, messages, config.chat.reasoning.template_arguments)
        return chat.encode_messages(tokenizer, messages, config.chat.template_arguments, config.chat.answer_prefix)

    return encode_messages


def open_model(config: ModelConfig, report: Path, condition: str, adapters: Path, probe: str) -> ConditionedModel:
    """Load the checkpoint and the condition's adapter; ``probe`` is a request on which the adapter must show."""
    from pipeline.engines.loading.model import default_device, load_adapter, load_model, load_tokenizer, stop_ids

    revision = model_revision(report)
    tokenizer = load_tokenizer(config, revision)
    model = load_model(config, revision)
    stops = stop_ids(model, tokenizer, config.terminator)

    encode_messages = message_encoder(tokenizer, config)

    def encode(text: str) -> list[int]:
        return encode_messages([{"role": "user", "content": text}], False)

    if has_adapter(condition):
        model = load_adapter(model, adapters / condition, encode(probe))
    return ConditionedModel(model, tokenizer, encode, encode_messages, stops, default_device())
