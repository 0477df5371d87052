"""Certified bounds on how far a model's law over plain decimals is from a target law.

An answer is an optional "-", digits, and optionally "." and digits, in any grouping of digits into tokens; the
terminator ends it wherever the text so far is a number ("3", "3.", ".5"). A prefix of an answer confines its value:
after a point and i decimals to [v, v + 10^-i), an integer part m that may still grow to [m, inf), mirrored behind "-".
Prefixes are expanded best first, those whose unknown remainder moves the distance most; whatever is not expanded counts
with all values that it may still take. So the bounds hold at any budget.

W1 and KS are those of the masked law: tokens that cannot continue a plain decimal have probability 0 and the others are
renormalised at every step, as in grammar-constrained decoding. It is conditional on a value in the target's support
(of an integer law, a whole one).

As in the paper's grid, both laws are clipped to the window between the target's 0.001 and 0.999 quantiles (within its
support): mass outside moves to the ends. W1 is the integral over the window of |F_model - F_target|, divided by the
target's Q95 - Q05. All functions involved only grow, so their values at the ends of a cell bound the integral over it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.tries.digit_tokens import DigitTokens

# Most values of x at which distribution functions are kept.
CDF_POINTS = 129
# Mass is added to and taken from sums; bounds are widened by what rounding can make of that.
ROUNDING = 1e-9
# Cells of the window per 1 / width; within a cell the target is known by its values at both ends only.
CELLS_PER_WIDTH = 20
# Part of the requested width, per unit of expanded mass, given up by never expanding negligible prefixes.
NEGLIGIBLE = 0.02
# Longest digit string that is expanded, so that powers of ten stay finite.
MAX_DIGITS = 250

# What the text so far is: nothing, "-", a point without any digit; from WHOLE on it is a number.
START, SIGN, POINT, WHOLE, FRACTION = range(5)

Scorer = Callable[[list[tuple[int, ...]]], np.ndarray]


def candidate_tokens(digit_tokens: DigitTokens) -> np.ndarray:
    """int64[C]: digit groups by length and value (0 to 9, 00 to 99, ...), then minus, point, terminator."""
    ends = [digit_tokens.minus, digit_tokens.point, digit_tokens.terminator]
    return np.concatenate([*digit_tokens.groups, ends]).astype(np.int64)


@dataclass(frozen=True)
class NumberLawBounds:
    """Certified bounds: of W1 / (Q95 - Q05) and of the largest |F_model - F_target| on the window, of the masked law's
    probability of a value in the support, and of the distribution function (``GridSums.distribution``). ``positions``
    are the prefixes scored."""

    wasserstein_1_low: float
    wasserstein_1_high: float
    ks_low: float
    ks_high: float
    support_low: float
    support_high: float
    positions: int
    distribution: dict[str, np.ndarray]


class GridTarget:
    """The target on a grid of its window, and what a unit of mass at each node weighs in W1."""

    def __init__(self, law: Law, cells: int):
        low, high, q05, q95 = quantile(law, np.array([*QUANTILE_RANGE, 0.05, 0.95]))
        self.support, self.integer, self.scale = law.support, law.integer, float(q95 - q05)
        low, high = max(low, self.support[0]), min(high, self.support[1])
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
        """Bounds of F_model over each cell, float64[cells] each: least at its left end, with every block above that can
        be there, and most just before its right; the others invalid where they can be."""
        total = self.high.sum() - np.cumsum(self.high - self.high_certain)[:-2]
        least = np.clip(_ratio(np.cumsum(self.high_certain)[:-2], total, 0.0) - ROUNDING, 0, 1)
        total = self.low_certain.sum() + np.cumsum(self.low - self.low_certain)[1:-1]
        return least, np.clip(_ratio(np.cumsum(self.low)[1:-1], total, 1.0) + ROUNDING, 0, 1)

    def distribution(self) -> dict[str, np.ndarray]:
        """x (ascending, the same for every model), cdf_low, cdf_high (of P(X <= x) given a value in the support) and
        target_cdf, float64[K] each."""
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


def _ratio(part: np.ndarray, total: np.ndarray, empty: float) -> np.ndarray:
    return np.where(total > 1e-300, part / np.maximum(total, 1e-300), empty)


# Prefixes that were not expanded ("blocks"). `number` is their digits as an integer, `decimals` how many of them are
# behind the point, `fractional` whether one of these is not 0, `gap` about what not knowing their remainder adds to
# the width of the bounds.
_BLOCK = np.dtype(
    [
        *((name, "f8") for name in ("mass", "number", "low", "high", "gap")),
        *((name, "i4") for name in ("low_place", "high_place", "decimals", "digits", "length", "parent", "candidate")),
        ("state", "i1"),
        *((name, "?") for name in ("negative", "fractional", "certain")),
    ],
    align=True,
)


class _Search:
    """The expanded prefixes' children, resolved or waiting."""

    def __init__(self, law: Law, digit_tokens: DigitTokens, width: float, max_positions: int, max_new_tokens: int):
        self.target = GridTarget(law, int(np.clip(CELLS_PER_WIDTH / width, 2000, 200_000)))
        self.unit = self.target.scale or 1.0
        self.width, self.max_positions, self.max_new_tokens = width, max_positions, max_new_tokens
        self.invalid = 0.0
        self.tokens = candidate_tokens(digit_tokens)
        sizes = [len(group) for group in digit_tokens.groups]
        # Of each candidate: digits it adds and their value; the last three are minus, point and terminator.
        self.added = np.concatenate([*(np.full(n, k) for k, n in enumerate(sizes, start=1)), np.zeros(3, int)])
        self.value = np.concatenate([*(np.arange(n) for n in sizes), np.zeros(3)])
        self.minus, self.point, self.end = len(self.tokens) - 3, len(self.tokens) - 2, len(self.tokens) - 1
        self.sums = GridSums(self.target)
        self.paths: list[tuple[int, ...]] = []
        root = np.zeros(1, dtype=_BLOCK)
        root["mass"], root["parent"] = 1, -1
        self.waiting = self._place(root)
        self.sums.add_blocks(self.waiting)

    def path(self, block: np.ndarray) -> tuple[int, ...]:
        return (*self.paths[block["parent"]], int(self.tokens[block["candidate"]])) if block["parent"] >= 0 else ()

    def take(self, size: int) -> np.ndarray:
        """Remove the blocks with the largest gaps: at most ``size``, and of the budget what is left."""
        # Blocks are taken in the order of their gaps: those behind the rest of the budget never will be.
        left = self.max_positions - len(self.paths)
        if len(self.waiting) > left:
            self.waiting = self.waiting.take(np.argpartition(-self.waiting["gap"], left - 1)[:left])
        gaps = self.waiting["gap"]
        order = np.argsort(-gaps, kind="stable")[:size]
        order = order[gaps[order] > 0]
        # Once the rest is small, so is the use of this round's further blocks.
        rest = gaps.sum() - np.cumsum(gaps[order]) + gaps[order]
        if (worth := rest > 0.25 * self.width).any():
            order = order[worth]
        kept = np.ones(len(gaps), dtype=bool)
        kept[order] = False
        blocks, self.waiting = self.waiting.take(order), self.waiting.compress(kept)
        return blocks

    def expand(self, blocks: np.ndarray, paths: Sequence[tuple[int, ...]], log_probabilities: np.ndarray) -> None:
        """Replace blocks by their children: answers, invalid mass, waiting or negligible blocks."""
        self.sums.add_blocks(blocks, -1.0)
        first = len(self.paths)
        self.paths.extend(paths)
        state = blocks["state"]
        probabilities = np.exp(log_probabilities)
        probabilities[state != START, self.minus] = 0
        probabilities[(state == POINT) | (state == FRACTION), self.point] = 0
        probabilities[state < WHOLE, self.end] = 0
        inside = probabilities.sum(axis=1)
        # Where nothing can follow, the text so far is the answer, as at the length limit.
        self._resolve(blocks[inside == 0])
        probabilities = probabilities[inside > 0]
        blocks, first_of = blocks[inside > 0], np.flatnonzero(inside > 0) + first
        mass = blocks["mass"][:, None] * probabilities / inside[inside > 0, None]
        rows, columns = np.nonzero(mass)
        children = self._children(blocks.take(rows), columns)
        children["mass"], children["parent"] = mass[rows, columns], first_of[rows]
        ended = (columns == self.end) | (children["length"] == self.max_new_tokens)
        self._resolve(children.compress(ended))
        self._place(children)
        impossible = ~ended & (children["low"] > children["high"])
        self.invalid += float(children["mass"][impossible].sum())
        # There are up to 1,113 children per block, and `compress` and `take` are ten times as fast as indexing.
        done = ended | impossible
        children["mass"][done] = children["gap"][done] = 0
        self.sums.add_blocks(children)
        kept = ~done & ~self._negligible(children, rows, blocks["mass"])
        self.waiting = np.concatenate([self.waiting, children.compress(kept)])

    def _children(self, children: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Turn copies of the parents, in place, into the blocks behind one more token each."""
        state, added = children["state"].copy(), self.added[columns]
        with_digits, with_point = added > 0, columns == self.point
        behind_point = (state == POINT) | (state == FRACTION)
        children["candidate"] = columns
        children["length"] += 1
        children["digits"] += added
        children["number"] = children["number"] * 10.0**added + self.value[columns]
        children["decimals"] += np.where(behind_point, added, 0)
        children["fractional"] |= behind_point & (self.value[columns] > 0)
        children["negative"] |= columns == self.minus
        children["state"][with_digits] = np.where(behind_point, FRACTION, WHOLE)[with_digits]
        children["state"][with_point] = np.where(state == WHOLE, FRACTION, POINT)[with_point]
        children["state"][columns == self.minus] = SIGN
        return children

    def _resolve(self, blocks: np.ndarray) -> None:
        """Count blocks as answers, or as invalid."""
        values = np.where(blocks["negative"], -1.0, 1.0) * blocks["number"] / 10.0 ** blocks["decimals"]
        lower, upper = self.target.support
        valid = (blocks["state"] >= WHOLE) & (lower <= values) & (values <= upper)
        valid &= ~blocks["fractional"] if self.target.integer else True
        self.sums.add_answers(values[valid], blocks["mass"][valid])
        self.invalid += float(blocks["mass"][~valid].sum())

    def _place(self, blocks: np.ndarray) -> np.ndarray:
        """Set low, high (low > high where no value is valid), certain, places and gap."""
        lower, upper = self.target.support
        state, negative, number = blocks["state"], blocks["negative"], blocks["number"]
        power = 10.0 ** blocks["decimals"]
        near = number / power
        grows = (state == SIGN) | (state == WHOLE)
        far = np.where(grows, np.inf, (number + 1) / power)
        # A whole part m becomes at least 10 m with one more digit: past the support, m itself remains.
        last = (state == WHOLE) & (10 * number > np.where(negative, -lower, upper))
        far[last] = number[last] + 1
        whole = last | ~grows if self.target.integer else np.zeros(len(blocks), dtype=bool)
        far[whole] = near[whole]
        low, high = np.where(negative, -far, near), np.where(negative, -near, far)
        low[state == START], high[state == START] = -np.inf, np.inf
        # The far end is approached and never reached; an integer law's values are reached.
        open_end = ~whole & ~grows
        possible = (low <= upper) & (high >= lower)
        possible &= ~(open_end & ((negative & (low >= upper)) | (~negative & (high <= lower))))
        possible &= ~(blocks["fractional"] & self.target.integer)
        blocks["certain"] = (not self.target.integer) & (state >= WHOLE) & ~last
        blocks["certain"] &= (low >= lower) & (high <= upper)
        blocks["low"] = np.where(possible, np.maximum(low, lower), np.inf)
        blocks["high"] = np.where(possible, np.minimum(high, upper), -np.inf)
        nodes, moment = self.target.nodes, self.target.moment
        blocks["low_place"] = np.searchsorted(nodes, blocks["low"], "right")
        blocks["high_place"] = np.searchsorted(nodes, blocks["high"], "left")
        ends = [np.minimum(blocks[name], len(nodes) - 1) for name in ("low_place", "high_place")]
        spread = blocks["high"].clip(nodes[0], nodes[-1]) - blocks["low"].clip(nodes[0], nodes[-1])
        spread += np.where(blocks["certain"], 0, np.maximum(moment[ends[0]], moment[ends[1]]))
        blocks["gap"] = np.where(blocks["digits"] > MAX_DIGITS, 0, blocks["mass"] * spread / self.unit)
        return blocks

    def _negligible(self, children: np.ndarray, rows: np.ndarray, parent_mass: np.ndarray) -> np.ndarray:
        """bool[n], the smallest gaps of each parent that together make up little of the width."""
        gaps = np.zeros((len(parent_mass), len(self.tokens)))
        gaps[rows, children["candidate"]] = children["gap"]
        ascending = np.sort(gaps, axis=1)
        excess = np.cumsum(ascending, axis=1) > NEGLIGIBLE * self.width * parent_mass[:, None]
        first = np.where(excess.any(axis=1), excess.argmax(axis=1), ascending.shape[1] - 1)
        smallest_kept = np.where(excess.any(axis=1), ascending[np.arange(len(first)), first], np.inf)
        return children["gap"] < smallest_kept[rows]

    def result(self) -> NumberLawBounds:
        target, (least, most) = self.target, self.sums.cells()
        upper = np.maximum(most - target.left, target.right - least)
        lower = np.maximum(np.maximum(least - target.right, target.left - most), 0)
        certain, possible = float(self.sums.high_certain.sum()), float(self.sums.high.sum())
        everything, scale = possible + self.invalid, target.scale or math.nan
        return NumberLawBounds(
            wasserstein_1_low=float(lower @ target.lengths) / scale,
            wasserstein_1_high=float(upper @ target.lengths) / scale,
            ks_low=float(np.maximum(least - target.left, target.left - most).max(initial=0)),
            ks_high=float(upper.max(initial=0)),
            support_low=min(1.0, certain / everything) if everything > 0 else 0.0,
            support_high=min(1.0, possible / everything) if everything > 0 else 1.0,
            positions=len(self.paths),
            distribution=self.sums.distribution(),
        )


def bound_number_law(
    law: Law,
    digit_tokens: DigitTokens,
    score: Scorer,
    *,
    width: float = 0.001,
    max_positions: int = 4000,
    max_new_tokens: int = 32,
    round_size: int = 128,
) -> NumberLawBounds:
    """Bounds of the model's distance from ``law``, expanded until those of normalised W1 are ``width`` apart (of KS,
    where Q95 = Q05), or ``max_positions`` prefixes are scored, ``round_size`` at a time. ``score(paths)`` gives
    float64[len(paths), C], log-probabilities (nats, full vocabulary) at ``candidate_tokens(digit_tokens)`` after each
    token path. A text of ``max_new_tokens`` tokens is the answer as it stands, as when sampling."""
    search = _Search(law, digit_tokens, width, max_positions, max_new_tokens)
    while True:
        blocks = search.take(round_size)
        if len(blocks):
            paths = [search.path(block) for block in blocks]
            search.expand(blocks, paths, np.asarray(score(paths), dtype=np.float64))
        bounds = search.result()
        gap = bounds.wasserstein_1_high - bounds.wasserstein_1_low
        if math.isnan(gap):
            gap = bounds.ks_high - bounds.ks_low
        if gap <= width or not len(blocks) or bounds.positions >= max_positions:
            return bounds
