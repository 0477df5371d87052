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


def open_checkpoint(
    config: ModelConfig, revision: str | None = None, adapter: Path | None = None, probe: str = ""
) -> ConditionedModel:
    """Load a checkpoint, and an adapter into it; the same as before where ``keep_last_model`` has it.

    Args:
        config: The checkpoint.
        revision: Its commit; None for the one that ``config`` names.
        adapter: Directory of the adapter; None for the base checkpoint.
        probe: A request on which the adapter must show.

    Raises:
        ModelError: The checkpoint or the adapter cannot be used.
    """
    from pipeline.engines.loading.adapter import load_adapter
    from pipeline.engines.loading.model import default_device, load_model, load_tokenizer, stop_ids

    def load() -> ConditionedModel:
        tokenizer, model = load_tokenizer(config, revision), load_model(config, revision)
        stops = stop_ids(model, tokenizer, config.terminator)
        encode = request_encoder(tokenizer, config)
        if adapter is not None:
            model = load_adapter(model, adapter, encode(probe))
        return ConditionedModel(model, tokenizer, encode, message_encoder(tokenizer, config), stops, default_device())

    loaded_by = (revision or config.revision, config.dtype, config.attention, config.terminator, repr(config.chat))
    return opened_once((config.checkpoint, adapter, *loaded_by), load)


def open_model(config: ModelConfig, report: Path, adapter: Path | None = None, probe: str = "") -> ConditionedModel:
    """``open_checkpoint`` at the revision that was checked; ``report`` is what check_model wrote of the checkpoint."""
    return open_checkpoint(config, model_revision(report), adapter, probe)
