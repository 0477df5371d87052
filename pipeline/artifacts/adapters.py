"""Adapter directories in PEFT's format."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pipeline.artifacts.storage import write_json
from pipeline.errors import ArtifactError, first_line

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def merge_adapters(sources: Sequence[tuple[Path, float]], output: Path) -> None:
    """Write an adapter whose update is the sum of others' updates, each times its weight; exact up to rounding.

    sum_i w_i s_i B_i A_i, with s_i = alpha_i / r_i, is one product of the B_i side by side and the A_i below each
    other: a LoRA of the ranks' sum and of scale 1, which everything that reads PEFT's format can use. A weight of 0
    leaves its adapter out. Raises ArtifactError where two have LoRA weights of different modules.
    """
    read = [(directory, weight, *_read(directory)) for directory, weight in sources if weight]
    (first, _, config, tensors), *_ = read
    for directory, _, _, others in read:
        if others.keys() != tensors.keys():
            raise ArtifactError(
                f"{directory} and {first} have LoRA weights of different modules; they cannot be added up"
            )
    merged = {}
    for name in tensors:
        is_b = ".lora_B." in name
        scales = [weight * own["lora_alpha"] / own["r"] if is_b else 1 for _, weight, own, _ in read]
        parts = [scale * own[name].float() for scale, (*_, own) in zip(scales, read, strict=True)]
        merged[name] = torch.cat(parts, dim=1 if is_b else 0).contiguous()
    rank = sum(own["r"] for _, _, own, _ in read)
    save_file(merged, output / WEIGHTS, metadata={"format": "pt"})
    write_json(output / CONFIG, {**config, "r": rank, "lora_alpha": rank})


def copy_weights(source: Path, output: Path, dtype: str) -> None:
    """Write an adapter's weights to the directory ``output``, in "float32" or "bfloat16"; equal ones byte for byte."""
    _, tensors = _read(source)
    if all(tensor.dtype == getattr(torch, dtype) for tensor in tensors.values()):
        shutil.copyfile(source / WEIGHTS, output / WEIGHTS)
    else:
        cast = {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors.items()}
        save_file(cast, output / WEIGHTS, metadata={"format": "pt"})


def _read(directory: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    try:
        return json.loads((directory / CONFIG).read_text()), load_file(directory / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise ArtifactError(f"cannot read the adapter {directory}: {first_line(error)}") from None
