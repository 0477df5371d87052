"""Experts in MXFP4, as GPT-OSS's checkpoints have them: 4-bit floats with a power of two per 32 weights.

Open Compute Project, "OCP Microscaling Formats (MX) v1.0", formats E2M1 (element) and E8M0 (scale).
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

# Magnitudes of E2M1 by the low three bits of its code; the fourth bit is the sign.
MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BLOCK = 32
SCALE_BIAS = 127
EXPERT_MATRICES = ("gate_up_proj", "down_proj")


def quantise(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round float[E, I, O] weights of E experts from I inputs (a multiple of 32) to O outputs to MXFP4.

    Returns blocks uint8[E, O, I / 32, 16], two codes in a byte, the first in its low half, and scales
    uint8[E, O, I / 32], exponents of two with bias 127.
    """
    rows = matrices.float().transpose(1, 2)
    blocks = rows.reshape(*rows.shape[:2], -1, BLOCK)
    largest = blocks.abs().amax(dim=-1).clamp(min=2.0**-100)
    # The largest magnitude, 6, is 1.5 times 2^2.
    exponents = torch.floor(torch.log2(largest)) - 2
    scaled = blocks / torch.exp2(exponents)[..., None]
    codes = (scaled.abs()[..., None] - MAGNITUDES).abs().argmin(dim=-1) | (scaled < 0).long() << 3
    packed = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    return packed, (exponents + SCALE_BIAS).to(torch.uint8)


def quantise_experts(directory: Path) -> None:
    """Turn the experts of a saved GPT-OSS checkpoint (one weight file) into MXFP4, in the published names."""
    path = directory / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(path).items():
        if name.endswith(EXPERT_MATRICES) and ".experts." in name:
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = quantise(tensor)
        else:
            tensors[name] = tensor
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
