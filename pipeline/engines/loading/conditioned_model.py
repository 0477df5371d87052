"""Open a model under a condition: the base checkpoint, or with a trained adapter, and how it is asked."""

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pipeline.artifacts.model_report import model_revision
from pipeline.config.models import ModelConfig
from pipeline.errors import ModelError, first_line

Opened = TypeVar("Opened")
_LAST: ContextVar[dict[Hashable, Any] | None] = ContextVar("last", default=None)


@contextlib.contextmanager
def keep_last_model() -> Iterator[None]:
    """While the context is open, the model that was opened last is handed out again to whoever asks for the same."""
    token = _LAST.set({})
    try:
        yield
    finally:
        _LAST.reset(token)


def opened_once(key: Hashable, open_model: Callable[[], Opened]) -> Opened:
    """What ``open_model`` gives, or gave when it was last called for ``key``; another model is let go of before."""
    last = _LAST.get()
    if last is None:
        return open_model()
    if key not in last:
        # Two models at once may be more than there is memory for.
        last.clear()
        last[key] = open_model()
    return last[key]


@dataclass(frozen=True)
class ConditionedModel:
    """A model ready to sample or score, in evaluation mode on ``device`` ("cuda" or "cpu"), adapter loaded."""

    model: Any
    tokenizer: Any
    encode_messages: Callable[[Sequence[Mapping[str, str]], bool], list[int]]
    """Chat messages to token ids; the second argument says whether the model is to reason before it answers."""
    stop_ids: set[int]  # tokens that end a generation
    device: str

    def encode(self, text: str) -> list[int]:
        """Request text to token ids."""
        return self.encode_messages([{"role": "user", "content": text}], False)


def load_adapter(model: Any, directory: Path, probe_ids: list[int]) -> Any:
    """Load a trained adapter, in the model's dtype. Raises ModelError where it changes nothing after ``probe_ids``."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (directory / name).exists():
            raise ModelError(f"adapter {directory} has no {name}")
    from peft import PeftModel

    from pipeline.engines.loading.model import next_log_probabilities

    before = next_log_probabilities(model, [probe_ids])
    try:
        adapted = PeftModel.from_pretrained(model, directory, autocast_adapter_dtype=False).eval()
    except Exception as error:
        raise ModelError(f"cannot load the adapter {directory}: {first_line(error)}") from None
    if (before == next_log_probabilities(adapted, [probe_ids])).all():
        raise ModelError(f"adapter {directory} does not change the model's log-probabilities")
    return adapted


def open_checkpoint(
    config: ModelConfig, revision: str | None = None, adapter: Path | None = None, probe: str = ""
) -> ConditionedModel:
    """Load a checkpoint, at ``revision`` or its own, and an adapter that must show on ``probe``. Raises ModelError."""
    from pipeline.engines.loading.chat import message_encoder, request_encoder
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
