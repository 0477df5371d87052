"""What the page's explorer draws of one law and of samples from it, in few enough numbers to be embedded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

NUM_QUANTILES = 200
LEVELS = (np.arange(1, NUM_QUANTILES + 1) - 0.5) / NUM_QUANTILES
"""Levels (i - 0.5) / 200 of the samples' quantiles."""
STEPS = 160
"""Steps of a continuous law's grid."""
STEPS_PER_BIN = 8
MAX_INTEGER_STEPS = 120
MARGIN = 0.5
"""How far the window reaches beyond the target's central 90%, in units of its width Q95 - Q05."""
TAIL = 0.001
"""The window never leaves the target's quantiles at this level and its complement."""


@dataclass(frozen=True)
class Window:
    """A uniform grid over the part of a law that is drawn.

    Attributes:
        start: Lower end of the first step.
        step: Width of a step.
        steps: Number of steps.
        steps_per_bin: Steps in a bin of the histogram.
        integer: Whether step j holds the integers in (start + j step, start + (j + 1) step].
    """

    start: float
    step: float
    steps: int
    steps_per_bin: int
    integer: bool

    @property
    def grid(self) -> np.ndarray:
        """Ends of the steps, float64[steps + 1]."""
        return self.start + self.step * np.arange(self.steps + 1)

    @property
    def edges(self) -> np.ndarray:
        """Ends of the histogram's bins; half-way between integers for an integer law."""
        return self.grid[:: self.steps_per_bin] + (0.5 if self.integer else 0.0)


def law_window(law: Law) -> Window:
    """The window of a law: its central 90% and half as much on either side, within the support and the 99.8%."""
    low, first, last, high = quantile(law, np.array([TAIL, 0.05, 0.95, 1 - TAIL]))
    width = last - first
    low, high = max(low, first - MARGIN * width), min(high, last + MARGIN * width)
    if law.integer:
        lower, upper = law.support
        low, high = max(math.floor(low) - 1, lower), min(math.ceil(high) + 1, upper)
        step = math.ceil((high - low + 1) / MAX_INTEGER_STEPS)
        return Window(low - 1.0, float(step), math.ceil((high - low + 1) / step), 1, True)
    return Window(float(low), float(high - low) / STEPS, STEPS, STEPS_PER_BIN, False)


def decimals_of(window: Window) -> int:
    """Decimals at which a value of the window keeps four significant digits of the window's width."""
    return int(np.clip(4 - math.floor(math.log10(window.step * window.steps)), 0, 12))


def law_view(law: Law, window: Window) -> dict[str, Any]:
    """Distribution function on the window's grid.

    Densities are differences of the former over a step, so they are finite where the law's density is not.
    """
    cdf = law.distribution.cdf(window.grid, **law.scipy_kwargs)
    return {
        "start": window.start,
        "step": window.step,
        "perBin": window.steps_per_bin,
        "integer": window.integer,
        "cdf": np.round(cdf, 5).tolist(),
    }


def sample_view(samples: np.ndarray, window: Window) -> dict[str, Any]:
    """Counts of valid samples per bin and outside the window, and order statistics at LEVELS.

    ``quantiles`` are the smallest samples whose empirical distribution function reaches the level; empty without
    samples.
    """
    ordered, edges = np.sort(samples), window.edges
    below, inside = np.searchsorted(ordered, [edges[0], edges[-1]], side="left")
    # numpy.histogram closes the last bin; a sample at its end is inside.
    counts, _ = np.histogram(ordered, edges)
    ranks = np.ceil(LEVELS * len(ordered)).astype(int) - 1
    return {
        "counts": counts.tolist(),
        "below": int(below),
        "above": int(len(ordered) - inside - (ordered == edges[-1]).sum()),
        "quantiles": np.round(ordered[ranks], decimals_of(window)).tolist() if len(ordered) else [],
    }


def _defined(values: np.ndarray, decimals: int) -> list[float | None]:
    """Rounded values; None where undefined, which JSON has no number for."""
    rounded = np.round(values.astype(np.float64), decimals).tolist()
    return [value if math.isfinite(value) else None for value in rounded]


Columns = Mapping[str, np.ndarray]
"""Columns of one prompt's rows of a table."""


def exact_view(columns: Columns, window: Window) -> dict[str, Any]:
    """The certified bounds of an exact distribution function at ascending ``x``, rounded outwards."""
    return {
        "x": np.round(columns["x"], decimals_of(window)).tolist(),
        "low": _defined(np.floor(columns["cdf_low"] * 1e4) / 1e4, 4),
        "high": _defined(np.ceil(columns["cdf_high"] * 1e4) / 1e4, 4),
    }


def pit_view(columns: Columns) -> dict[str, Any]:
    """Counts of a PIT histogram and the central 95% of a bin's count when the law is met."""
    counts = columns["count"][np.argsort(columns["bin"])]
    low, high = _binomial_band(int(counts.sum()), len(counts))
    return {"counts": counts.tolist(), "low": low, "high": high}


@cache
def _binomial_band(n: int, bins: int) -> tuple[int, int]:
    low, high = stats.binom.ppf([0.025, 0.975], n, 1 / bins) if n else (0, 0)
    return int(low), int(high)
