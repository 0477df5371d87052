"""Energy distance of samples from a law, by the integral of the squared difference of distribution functions.

D^2 = 2 * integral of (F_n(x) - F(x))^2 dx = 2 E|X - Y| - E|X - X'| - E|Y - Y'| (Szekely and Rizzo 2013), as in
``scipy.stats.energy_distance``. The integral needs no mean: it is finite for every law whose tails are lighter than
x^(-1/2), Cauchy's among them, where the expectations are not. Reported is D / sqrt(Q95 - Q05), which has no unit.
"""

import math

import numpy as np

from pipeline.axes.structured.pit import cumulative
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

SMALLEST_LEVEL = 1e-12
"""Where the grid ends: beyond, a law of the 30 families contributes less than 1e-9 of its width to the integral."""


def _levels() -> np.ndarray:
    """Levels that are even in the body and in the logarithm of the tails, ascending."""
    tail = np.geomspace(SMALLEST_LEVEL, 1e-3, 181)
    return np.concatenate([tail, np.linspace(1e-3, 1 - 1e-3, 1025)[1:-1], 1 - tail[::-1]])


class EnergyReference:
    """A law on a grid that is made once for all samples it is compared with."""

    def __init__(self, law: Law):
        """The grid of ``law``: all integers that matter, or quantiles at fixed levels."""
        self.law = law
        if law.integer:
            low, high = quantile(law, np.array([SMALLEST_LEVEL, 1 - SMALLEST_LEVEL]))
            self.nodes = np.arange(low, high + 1)
            self.levels = cumulative(law, self.nodes)
        else:
            # A density without bound, such as a beta law's with alpha < 1, gives equal quantiles at different levels.
            self.nodes, first = np.unique(quantile(law, _levels()), return_index=True)
            self.levels = _levels()[first]
        low, high = quantile(law, np.array([0.05, 0.95]))
        self.scale = float(high - low)

    def _weights(self, nodes: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each cell between nodes, where F_n is some c: integral of (c - F)^2 = length c^2 - linear c + constant."""
        lengths, left = np.diff(nodes), levels[:-1]
        # Within a cell an integer law's F is constant, others' is taken as linear.
        right = left if self.law.integer else levels[1:]
        return lengths, lengths * (left + right), lengths * (left**2 + left * right + right**2) / 3

    def _normalised(self, integrals: np.ndarray) -> np.ndarray:
        return np.sqrt(2 * np.maximum(integrals, 0) / (self.scale if self.scale > 0 else math.nan))

    def distances(self, ordered: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Normalised energy distances of parts of a sample, float64[R].

        Args:
            ordered: float64[n], ascending.
            chosen: bool[R, n], the values that are in each part; NaN where there is none.
        """
        if not len(ordered):
            return np.full(len(chosen), math.nan)
        nodes = np.unique(np.concatenate([self.nodes, ordered]))
        levels = cumulative(self.law, nodes)
        lengths, linear, constant = self._weights(nodes, levels)
        # Cells between two values of the sample have the same F_n, so only their sums matter.
        place = np.searchsorted(ordered, nodes[:-1], "right")
        sums = [np.bincount(place, part, len(ordered) + 1) for part in (lengths, linear)]
        sizes = chosen.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            steps = np.concatenate([np.zeros((len(chosen), 1)), np.cumsum(chosen, axis=1)], axis=1) / sizes
        return self._normalised(steps**2 @ sums[0] - steps @ sums[1] + constant.sum())

    def floor(self, pits: np.ndarray) -> np.ndarray:
        """Normalised energy distances of perfect samplers, float64[R].

        Args:
            pits: float64[R, n], independent and uniform. A draw counts as the grid's next node: the grid is finer
                than any sample it is used for.
        """
        if not pits.shape[1]:
            return np.full(len(pits), math.nan)
        place = np.minimum(np.searchsorted(self.levels, pits), len(self.nodes) - 1)
        place += np.arange(len(pits))[:, None] * len(self.nodes)
        counts = np.bincount(place.ravel(), minlength=len(pits) * len(self.nodes)).reshape(len(pits), -1)
        steps = np.cumsum(counts, axis=1)[:, :-1] / pits.shape[1]
        lengths, linear, constant = self._weights(self.nodes, self.levels)
        return self._normalised(steps**2 @ lengths - steps @ linear + constant.sum())
