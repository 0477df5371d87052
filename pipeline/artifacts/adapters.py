"""Adapter directories in PEFT's format."""

import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pipeline.errors import ArtifactError, first_line

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def copy_weights(source: Path, output: Path, dtype: str) -> None:
    """Write an adapter's weights to the directory ``output``, in "float32" or "bfloat16"; equal ones byte for byte."""
    try:
        tensors = load_file(source / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"cannot read the adapter {source}: {first_line(error)}") from None
    if all(tensor.dtype == getattr(torch, dtype) for tensor in tensors.values()):
        shutil.copyfile(source / WEIGHTS, output / WEIGHTS)
    else:
        cast = {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors.items()}
        save_file(cast, output / WEIGHTS, metadata={"format": "pt"})
