"""What a run uses up: wall time, tokens that its models read, and peak memory. No result depends on it."""

import resource
import sys
import time
from datetime import UTC, datetime
from typing import Any


class Usage:
    """What this process has used since the object was made.

    Attributes:
        started: When that was.
        continued: Whether the run found unfinished work of its own: it then cost more than is measured here.
    """

    def __init__(self) -> None:
        self.started = datetime.now(UTC)
        self.continued = False
        self._clock, self._tokens = time.monotonic(), _tokens_read()

    def measured(self) -> dict[str, Any]:
        """Fields of a record.

        wall_time_seconds, since the start or the continuation; tokens_read, which the models of this process ran
        forward, padding included (0 where a server or vLLM ran them); peak_memory_bytes, of the process;
        peak_gpu_memory_bytes, of its tensors, None without a GPU; continued.
        """
        return {
            "wall_time_seconds": round(time.monotonic() - self._clock, 3),
            "tokens_read": _tokens_read() - self._tokens,
            "peak_memory_bytes": _peak_memory(),
            "peak_gpu_memory_bytes": _peak_gpu_memory(),
            "continued": self.continued,
        }


def _tokens_read() -> int:
    # Loaded by what loads a model; a record must not import torch.
    counter = sys.modules.get("pipeline.engines.loading.token_count")
    return counter.tokens_read() if counter is not None else 0


def _peak_memory() -> int:
    """Largest resident set, which the kernel counts in KiB, and macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _peak_gpu_memory() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.max_memory_allocated()
