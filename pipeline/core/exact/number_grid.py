"""Distribution functions on a grid of a target's window, with bounds of W1 and KS from them.

Nothing here is quadrature: all functions involved only grow, so their values at the ends of a
cell bound every integral over it.
"""

import math

import numpy as np

from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile

CDF_POINTS = 129
"""Most values of x at which distribution functions are kept."""

# Mass is added to and taken from sums; bounds are widened by what rounding can make of that.
ROUNDING = 1e-9


class GridTarget:
    """The target on a grid of its window, and what a unit of mass at each node weighs in W1."""

    def __init__(self, law: Law, cells: int):
        low, high, q05, q95 = quantile(law, np.array([*QUANTILE_RANGE, 0.05, 0.95]))
        self.support, self.integer = law.support, law.integer
        low, high = max(low, self.support[0]), min(high, self.support[1])
        self.scale = float(q95 - q05)
        cdf = law.freeze().cdf
        if law.integer and high - low <= cells:
            nodes = np.arange(low, high + 1)
        else:
            nodes = np.linspace(low, high, 2049)
            for size in (cells // 4, cells):
                # SciPy's hypergeometric distribution function is NaN between integers.
                nodes = _refine(nodes, cdf(np.floor(nodes) if law.integer else nodes), size)
                nodes = np.unique(np.round(nodes)) if law.integer else nodes
        self.nodes, self.lengths = nodes, np.diff(nodes)
        # F at the left end of each cell and just before its right end.
        self.left = cdf(nodes[:-1])
        self.right = cdf(nodes[1:] - 1) if law.integer else cdf(nodes[1:])
        middle = (self.left + self.right) / 2
        below = np.concatenate([[0], np.cumsum(middle * self.lengths)])
        above = np.concatenate([[0], np.cumsum((1 - middle) * self.lengths)])
        # A unit of mass that is at a node instead of being invalid changes F_model - F_target by about this.
        self.moment = below + above[-1] - above


def _refine(nodes: np.ndarray, cdf: np.ndarray, size: int) -> np.ndarray:
    """Split cells where length times rise of F, the error of the bounds, is large; ends are kept."""
    lengths = np.diff(nodes)
    importance = np.sqrt(lengths * np.maximum(np.diff(cdf), 0))
    parts = 1 + (size * importance / max(importance.sum(), 1e-300)).astype(np.int64)
    step = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    inner = np.repeat(nodes[:-1], parts) + step * np.repeat(lengths / parts, parts)
    # Round numbers are frequent answers: with nodes there, they are not smeared over a cell.
    decimals = math.floor(math.log10(size / (nodes[-1] - nodes[0])))
    ticks = np.arange(math.ceil(nodes[0] * 10.0**decimals), math.floor(nodes[-1] * 10.0**decimals) + 1)
    ticks = ticks / 10.0**decimals if decimals >= 0 else ticks * 10.0**-decimals
    return np.unique(np.concatenate([inner, ticks, nodes[-1:]]).clip(nodes[0], nodes[-1]))


class GridSums:
    """Masses by where they lie among the nodes; bounds need no more, so nothing is ever sorted."""

    def __init__(self, target: GridTarget):
        self.target, self.size = target, len(target.nodes) + 1
        # Blocks by upper and by lower end; of these, the ones that are certain to end in the support.
        self.high, self.high_certain = np.zeros(self.size), np.zeros(self.size)
        self.low, self.low_certain = np.zeros(self.size), np.zeros(self.size)

    def add_answers(self, values: np.ndarray, mass: np.ndarray) -> None:
        """An answer is a block of one value."""
        nodes = self.target.nodes
        self._add(np.searchsorted(nodes, values, "right"), np.searchsorted(nodes, values, "left"), mass, mass)

    def add_blocks(self, blocks: np.ndarray, sign: float = 1.0) -> None:
        mass = sign * blocks["mass"]
        self._add(blocks["low_place"], blocks["high_place"], mass, mass * blocks["certain"])

    def _add(self, low: np.ndarray, high: np.ndarray, mass: np.ndarray, certain: np.ndarray) -> None:
        self.low += np.bincount(low, mass, self.size)
        self.low_certain += np.bincount(low, certain, self.size)
        self.high += np.bincount(high, mass, self.size)
        self.high_certain += np.bincount(high, certain, self.size)

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of F_model over each cell, float64[cells] each: least at its left end, most just before its right."""
        # At each cell's left end: F_model only grows within the cell.
        total = self.high.sum() - np.cumsum(self.high - self.high_certain)[:-2]
        least = np.clip(_ratio(np.cumsum(self.high_certain)[:-2], total, 0.0) - ROUNDING, 0, 1)
        # Just before each cell's right end.
        total = self.low_certain.sum() + np.cumsum(self.low - self.low_certain)[1:-1]
        return least, np.clip(_ratio(np.cumsum(self.low)[1:-1], total, 1.0) + ROUNDING, 0, 1)

    def distribution(self) -> dict[str, np.ndarray]:
        """Bounds of F_model at CDF_POINTS values of x at most, the same ones for every model: x (ascending), cdf_low,
        cdf_high (for P(X <= x) given a value in the support) and target_cdf, float64[K] each.

        Half of them are even in the target's probability, half in x; all integers if they are no more. Both laws are
        clipped to the window, so that both functions are 1 at its upper end.
        """
        nodes, least, most = self.target.nodes, *self.cells()
        places = np.arange(len(nodes))
        if len(nodes) > CDF_POINTS:
            half = CDF_POINTS // 2
            even = np.searchsorted(nodes, np.linspace(nodes[0], nodes[-1], CDF_POINTS - half))
            levels = np.linspace(self.target.left[0], self.target.left[-1], half)
            likely = np.searchsorted(self.target.left, levels)
            places = np.unique(np.concatenate([even, likely, [len(nodes) - 1]]).clip(0, len(nodes) - 1))[:CDF_POINTS]
        end = np.ones(1)
        return {
            "x": nodes[places],
            "cdf_low": np.concatenate([least, end])[places],
            "cdf_high": np.maximum.accumulate(np.concatenate([most, end])[places]),
            "target_cdf": np.concatenate([self.target.left, end])[places],
        }

    def bounds(self) -> dict[str, float]:
        """Bounds of W1 in the law's unit, of KS, and the masses that are certain and possible in the support.

        F_model(x) is least with every block above x that can be there, and the others
        invalid where they can be; it is largest with every block at or below x that can be
        there, and the others invalid where they can be.
        """
        target = self.target
        least, most = self.cells()
        upper = np.maximum(most - target.left, target.right - least)
        lower = np.maximum(np.maximum(least - target.right, target.left - most), 0)
        at_left_ends = np.maximum(least - target.left, target.left - most)
        return {
            "w1_low": float(lower @ target.lengths),
            "w1_high": float(upper @ target.lengths),
            "ks_low": float(at_left_ends.max(initial=0)),
            "ks_high": float(upper.max(initial=0)),
            "certain": float(self.high_certain.sum()),
            "possible": float(self.high.sum()),
        }


def _ratio(part: np.ndarray, total: np.ndarray, empty: float) -> np.ndarray:
    """part / total, ``empty`` where there is nothing."""
    return np.where(total > 1e-300, part / np.maximum(total, 1e-300), empty)
