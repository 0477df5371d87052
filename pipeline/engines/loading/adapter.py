"""Loading a trained adapter. Apart from loading a checkpoint, so that no training depends on this code."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pipeline.engines.loading.model import next_log_probabilities
from pipeline.errors import ModelError, first_line

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def load_adapter(model: "PreTrainedModel", directory: Path, probe_ids: list[int]) -> "PeftModel":
    """Load a trained adapter, in the model's dtype. Raises ModelError where it changes nothing after ``probe_ids``."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (directory / name).exists():
            raise ModelError(f"adapter {directory} has no {name}")
    from peft import PeftModel

    before = next_log_probabilities(model, [probe_ids])
    try:
        adapted = PeftModel.from_pretrained(model, directory, autocast_adapter_dtype=False).eval()
    except Exception as error:
        raise ModelError(f"cannot load the adapter {directory}: {first_line(error)}") from None
    if torch.equal(before, next_log_probabilities(adapted, [probe_ids])):
        raise ModelError(f"adapter {directory} does not change the model's log-probabilities")
    return adapted
