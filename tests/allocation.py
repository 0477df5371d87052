"""What tests/benchmarks/test_benchmarks.py measures in a process of its own; light to import."""

import numpy as np


def allocate(megabytes: int) -> dict:
    """Touches that much memory and keeps it."""
    return {"keep": np.ones(megabytes * 125_000), "size": megabytes}
