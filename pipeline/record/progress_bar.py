"""A progress bar that also logs what it counts, and how fast."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tqdm import tqdm

SECONDS_BETWEEN_POINTS = 10.0
SECONDS_BETWEEN_LINES = 30.0
"""In a log, where a bar that is drawn ten times a second makes megabytes in an hour."""


class LoggedBar(tqdm):
    """A tqdm bar that logs ``throughput/UNITS`` and ``throughput/UNITS_per_second``.

    The rate is over the time since the last point, and the last point is logged when the bar is closed. What the
    bar starts with (``initial``) is no part of a rate.

    Args:
        iterable: See tqdm.
        log: Called with the values and the count as step.
        arguments: See tqdm; ``unit`` in the singular, "B" for bytes.
    """

    def __init__(self, iterable: Iterable | None = None, *, log: Callable[..., None], **arguments: Any):
        if not (arguments.get("file") or sys.stderr).isatty():
            arguments = {"mininterval": SECONDS_BETWEEN_LINES, "maxinterval": 2 * SECONDS_BETWEEN_LINES} | arguments
        super().__init__(iterable, **arguments)
        unit = arguments.get("unit", "it")
        self._name = "throughput/" + ("bytes" if unit == "B" else f"{unit}s")
        # tqdm's own count stands still while the bar is not shown (TQDM_DISABLE).
        self._count = self._logged = self.n
        self._log, self._last_time = log, time.monotonic()

    def __iter__(self) -> Iterator:
        """See tqdm."""
        try:
            for item in self.iterable:
                yield item
                self.update()
        finally:
            self.close()

    def restored(self, count: int) -> None:
        """Count what an earlier run has done."""
        super().update(count)
        self._count += count
        self._logged += count

    def update(self, n: float | None = 1) -> bool | None:
        """See tqdm."""
        shown = super().update(n)
        self._count += n or 0
        if time.monotonic() - self._last_time >= SECONDS_BETWEEN_POINTS:
            self._log_point()
        return shown

    def close(self) -> None:
        """See tqdm; may be called again."""
        super().close()
        # tqdm's constructor closes what it cannot show before there is anything to log.
        if hasattr(self, "_last_time"):
            self._log_point()

    def _log_point(self) -> None:
        now = time.monotonic()
        if self._count > self._logged:
            rate = (self._count - self._logged) / max(now - self._last_time, 1e-9)
            self._log({self._name: self._count, f"{self._name}_per_second": rate}, step=int(self._count))
        self._logged, self._last_time = self._count, now
