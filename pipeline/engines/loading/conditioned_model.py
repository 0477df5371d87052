"""Open a model under a condition: the base checkpoint, or with a trained adapter, and how it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.artifacts.model_report import model_revision
from pipeline.config.models import ModelConfig
from pipeline.engines.loading.encoders import message_encoder, request_encoder
from pipeline.engines.loading.kept_models import opened_once


@dataclass(frozen=True)
class ConditionedModel:
    """A model ready to sample or score, in evaluation mode on ``device`` ("cuda" or "cpu"), adapter loaded."""

    model: Any
    tokenizer: Any
    encode_messages: Callable[[Sequence[Mapping[str, str]], bool], list[int]]
    """Chat messages to token ids; the second argument says whether the model is to reason before it answers."""
    stop_ids: set[int]
    """Tokens that end a generation."""
    device: str

    def encode(self, text: str) -> list[int]:
        """Request text to token ids."""
        return self.encode_messages([{"role": "user", "content": text}], False)


def open_checkpoint(
    config: ModelConfig, revision: str | None = None, adapter: Path | None = None, probe: str = ""
) -> ConditionedModel:
    """Load a checkpoint, at ``revision`` or its own, and an adapter that must show on ``probe``. Raises ModelError."""
    from pipeline.engines.loading.adapter import load_adapter
    from pipeline.engines.loading.model import default_device, load_model, load_tokenizer, stop_ids

    def load() -> ConditionedModel:
        tokenizer, model = load_tokenizer(config, revision), load_model(config, revision)
        stops = stop_ids(model, tokenizer, config.terminator)
        if adapter is not None:
            model = load_adapter(model, adapter, request_encoder(tokenizer, config)(probe))
        return ConditionedModel(model, tokenizer, message_encoder(tokenizer, config), stops, default_device())

    loaded_by = (revision or config.revision, config.dtype, config.attention, config.terminator, repr(config.chat))
    return opened_once((config.checkpoint, adapter, *loaded_by), load)


def open_model(config: ModelConfig, report: Path, adapter: Path | None = None, probe: str = "") -> ConditionedModel:
    """``open_checkpoint`` at the revision that was checked; ``report`` is what check_model wrote of the checkpoint."""
    return open_checkpoint(config, model_revision(report), adapter, probe)
