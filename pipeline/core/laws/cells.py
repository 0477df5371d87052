"""Cells in which a law and samples are drawn, and a histogram as one line of text."""

import math

import numpy as np

from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

CELLS = 40  # cells of a continuous law
MAX_INTEGER_CELLS = 120
MARGIN = 0.5  # how far the view reaches beyond the target's central 90%, in units of its width Q95 - Q05
TAIL = 0.001  # the view never leaves the target's quantiles at this level and its complement
LINE = 24  # characters of a histogram in a line
BLOCKS = " ▁▂▃▄▅▆▇█"


def law_cells(law: Law, cells: int = CELLS, integer_cells: int = MAX_INTEGER_CELLS) -> np.ndarray:
    """Ends of the cells that a law is drawn in, float64[cells + 1]: its central 90% and half as much on either side.

    Cell j of an integer law holds the integers in (ends[j], ends[j + 1]].
    """
    low, first, last, high = quantile(law, np.array([TAIL, 0.05, 0.95, 1 - TAIL]))
    width = last - first
    low, high = max(low, first - MARGIN * width), min(high, last + MARGIN * width)
    if not law.integer:
        return np.linspace(low, high, cells + 1)
    lower, upper = law.support
    low, high = max(math.floor(low) - 1, lower), min(math.ceil(high) + 1, upper)
    step = math.ceil((high - low + 1) / integer_cells)
    return low - 1.0 + step * np.arange(math.ceil((high - low + 1) / step) + 1)


def edges_of(law: Law, ends: np.ndarray) -> np.ndarray:
    """Where the cells are drawn and samples are counted: half-way between the integers of an integer law."""
    return ends + 0.5 if law.integer else ends


def line_shares(law: Law, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of at most LINE cells, and the shares of all samples (float64[n]) in them, both float64[cells]."""
    ends = law_cells(law, LINE, LINE)
    target = np.diff(law.distribution.cdf(ends, **law.scipy_kwargs))
    counts, _ = np.histogram(samples, edges_of(law, ends))
    return target, counts / max(len(samples), 1)


def line_of(shares: np.ndarray, target: np.ndarray) -> str:
    """A histogram as LINE block characters, a full one half as high again as the target's highest cell."""
    heights = np.round(np.clip(shares / (1.5 * target.max()), 0, 1) * (len(BLOCKS) - 1)).astype(int)
    widths = np.diff(np.linspace(0, LINE, len(heights) + 1).astype(int))
    return "".join(BLOCKS[height] for height in np.repeat(heights, widths))
