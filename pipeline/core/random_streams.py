"""Every draw comes from a seed and a tuple of names, so it changes with no batch size, order or interruption."""

import hashlib
import json

import numpy as np


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit integer that identifies the stream."""
    digest = hashlib.sha256(json.dumps([seed, *names], ensure_ascii=True).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def random_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator (Philox, counter-based) for the stream ``(seed, *names)``."""
    return np.random.Generator(np.random.Philox(stream_seed(seed, *names)))
