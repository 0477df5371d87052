"""Time and memory of a construction, against ones whose cost is known."""

import math
import time
import tracemalloc

import numpy as np
import pytest

from pipeline.stages.construction_cost import Construction, construction_summary, measure_construction


def test_time_and_peak_of_a_known_construction():
    calls = []

    def build() -> int:
        calls.append(1)
        time.sleep(0.02)
        # 8 MB each; nothing of it is left at the end.
        first = np.zeros(1_000_000)
        second = first + 1
        return len(second)

    started = time.perf_counter()
    built, cost = measure_construction(build)
    elapsed = time.perf_counter() - started
    assert built == 1_000_000 and len(calls) == 2
    # Without the other construction, whose memory is measured.
    assert 0.02 <= cost.seconds <= elapsed - 0.02
    assert 16e6 <= cost.peak_bytes < 17e6
    assert not tracemalloc.is_tracing()


def test_memory_of_before_does_not_count():
    held = np.ones(2_000_000)
    _, cost = measure_construction(lambda: held[:10].copy())
    assert cost.peak_bytes < 100_000


def test_a_failure_ends_the_tracing():
    calls = []

    def fails_the_second_time() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        measure_construction(fails_the_second_time)
    assert not tracemalloc.is_tracing()


def test_summary():
    summary = construction_summary({"trie": [Construction(1.0, 3_000_000), Construction(3.0, 1_000_000)], "x": []})
    assert summary["trie_mean_seconds"] == 2.0 and summary["trie_peak_mb"] == 3.0
    assert math.isnan(summary["x_mean_seconds"]) and math.isnan(summary["x_peak_mb"])
