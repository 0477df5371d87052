"""Open a model under a condition: the base checkpoint, or with a trained adapter."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import CONDITIONS, ModelConfig
from pipeline.errors import ConfigError
from pipeline.stages.check_model import model_revision


def adapter_inputs(condition: str, adapters: Path) -> list[Path]:
    """Files of the condition's adapter; none for the base model. Raises ConfigError."""
    if condition not in CONDITIONS:
        raise ConfigError(f"--condition: {condition!r} is not allowed; choose one of {', '.join(CONDITIONS)}")
    if condition == "base":
        return []
    return [adapters / condition / name for name in ("adapter_model.safetensors", "adapter_config.json")]


@dataclass(frozen=True)
class ConditionedModel:
    """A model ready to sample or score.

    Attributes:
        model: In evaluation mode on ``device``, adapter loaded.
        tokenizer: Its tokenizer.
        encode: Request text to token ids.
        stop_ids: Tokens that end a generation.
        device: "cuda" or "cpu".
    """

    model: Any
    tokenizer: Any
    encode: Callable[[str], list[int]]
    stop_ids: set[int]
    device: str


def open_model(config: ModelConfig, report: Path, condition: str, adapters: Path, probe: str) -> ConditionedModel:
    """Load the checkpoint and the condition's adapter; ``probe`` is a request on which the adapter must show."""
    from pipeline.engines import chat
    from pipeline.engines.model import default_device, load_adapter, load_model, load_tokenizer, stop_ids

    revision = model_revision(report)
    tokenizer = load_tokenizer(config, revision)
    model = load_model(config, revision)
    stops = stop_ids(model, tokenizer, config.terminator)

    def encode(text: str) -> list[int]:
        return chat.encode_request(tokenizer, text, config.chat.template_arguments, config.chat.answer_prefix)

    if condition != "base":
        model = load_adapter(model, adapters / condition, encode(probe))
    return ConditionedModel(model, tokenizer, encode, stops, default_device())
