"""Time and memory that building something takes, as in Table 24 of arXiv:2605.11845."""

import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Built = TypeVar("Built")


@dataclass(frozen=True)
class Construction:
    """What one construction took.

    Attributes:
        seconds: Wall clock, measured without tracing.
        peak_bytes: Largest memory that Python and NumPy had allocated at once beyond what there was before.
    """

    seconds: float
    peak_bytes: int


def measure_construction(build: Callable[[], Built]) -> tuple[Built, Construction]:
    """Build twice: once for the time, once under tracemalloc, which slows it down, for the memory.

    Raises:
        RuntimeError: Memory is being traced already; the peaks would be mixed.
    """
    if tracemalloc.is_tracing():
        raise RuntimeError("tracemalloc is in use already")
    started = time.perf_counter()
    built = build()
    seconds = time.perf_counter() - started
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        build()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return built, Construction(seconds, max(0, peak))


def construction_summary(constructions: Mapping[str, Sequence[Construction]]) -> dict[str, float]:
    """The columns of Table 24 for each thing built: mean seconds over prompts, and the worst prompt's peak in MB.

    Args:
        constructions: Per thing built ("output_space", "trie"), one entry per prompt.

    Returns:
        ``NAME_mean_seconds`` and ``NAME_peak_mb`` (10^6 bytes); NaN without prompts.
    """
    summary = {}
    for name, items in constructions.items():
        summary[f"{name}_mean_seconds"] = statistics.fmean(item.seconds for item in items) if items else math.nan
        summary[f"{name}_peak_mb"] = max(item.peak_bytes for item in items) / 1e6 if items else math.nan
    return summary
