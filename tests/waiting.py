"""Waiting for other processes on machines that may be slow or shared."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], process=None, seconds: float = 600) -> None:
    """Return once the condition holds, or once the process that is to bring it about has ended.

    The limit is for defects; nothing that works comes near it, even where many other processes run.
    """
    limit = time.monotonic() + seconds
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < limit, f"not within {seconds} seconds"
        time.sleep(0.005)
