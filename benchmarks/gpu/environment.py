"""What a device and its libraries are, as a report tells it."""

import importlib.util
import platform
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from pipeline.errors import ConfigError, first_line

# Specified dense bfloat16 peak, TFLOP/s, by a part of the device's name; the first that fits counts.
PEAKS = {"B200": 2250.0, "H100": 989.0, "H200": 989.0, "A100": 312.0, "L40": 181.0, "A10": 125.0}
KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
PACKAGES = ("torch", "transformers", "peft", "triton", "flash_attn", "vllm")


def specified_peak(device_name: str) -> float | None:
    """Dense bfloat16 TFLOP/s of a device by its name; None where it is not known."""
    return next((value for part, value in PEAKS.items() if part in device_name), None)


def require_gpu() -> None:
    """Raises ConfigError, in one sentence, where torch sees no GPU."""
    if torch.cuda.is_available():
        return
    reason = (
        f"torch {torch.__version__} is built without CUDA"
        if torch.version.cuda is None
        else f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds none (`nvidia-smi`, CUDA_VISIBLE_DEVICES)"
    )
    raise ConfigError(f"no GPU: {reason}; `make gpu-check ARGS='--shapes tiny'` runs the same checks on the CPU")


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _driver() -> str:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return "unknown (no nvidia-smi)"


def attention_kernels(device: str, dtype: torch.dtype) -> dict[str, str]:
    """Which kernels of scaled dot product attention run, causal and with a mask: "yes", or why not."""
    query = torch.randn(2, 4, 64, 64, device=device, dtype=dtype)
    mask = torch.ones(64, 64, dtype=torch.bool, device=device).tril()
    cases: dict[str, dict[str, Any]] = {"causal": {"is_causal": True}, "masked": {"attn_mask": mask}}
    found = {}
    for name, backend in KERNELS.items():
        for case, options in cases.items():
            attention = partial(scaled_dot_product_attention, query, query, query, **options)
            found[f"{name}, {case}"] = _runs(attention, backend)
    return found


def _runs(attention: Callable[[], torch.Tensor], backend: SDPBackend) -> str:
    try:
        with sdpa_kernel(backend):
            return "yes" if attention().isfinite().all() else "not finite"
    # Each kernel has exceptions of its own for what it does not know.
    except Exception as error:
        return f"no ({first_line(error)})"


def facts(device: str, dtype: torch.dtype) -> dict[str, Any]:
    """Device, memory and libraries, JSON-serialisable."""
    found: dict[str, Any] = {"python": platform.python_version(), **_versions(), "cuda": torch.version.cuda or "none"}
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        found |= {
            "device": torch.cuda.get_device_name(),
            "devices": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
            "driver": _driver(),
            "capability": ".".join(map(str, torch.cuda.get_device_capability())),
            "memory_gb": total / 1e9,
            "free_memory_gb": free / 1e9,
            "bfloat16": torch.cuda.is_bf16_supported(),
        }
    else:
        found |= {"device": f"CPU ({platform.machine()})", "devices": [], "bfloat16": None}
    kernels = attention_kernels(device, dtype)
    runs = [name for name, said in kernels.items() if said == "yes"]
    return found | {"attention_kernels": runs, "vllm_importable": importlib.util.find_spec("vllm") is not None}
