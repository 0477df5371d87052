"""Certified bounds on how far a model's law over plain decimals is from a target law.

An answer is an optional "-", digits, and optionally "." and digits, in any grouping of digits
into tokens; the terminator ends it wherever the text so far is a number ("3", "3.", ".5"). A
prefix of an answer confines its value: after a point and i decimals to [v, v + 10^-i), an
integer part m that may still grow to [m, inf), mirrored behind "-". Prefixes are expanded best
first, those whose unknown remainder moves the distance most; whatever is not expanded
counts with all values that it may still take. The bounds therefore hold at any budget, for exact
decimal values, up to rounding of the given log-probabilities and SciPy's distribution function.

W1 and KS are those of the masked law: tokens that cannot continue a plain decimal have probability 0
and the others are renormalised at every step, as in grammar-constrained decoding. It is conditional on
a value in the target's support (for an integer law, a whole value; see
``pipeline.core.prompts.number_answers``). Before that condition, it differs in total variation from the
unconstrained law of plain decimals by at most the model's probability of producing something else, of
which ``mass_outside`` was seen.

As in the paper's grid, both laws are clipped to the window between the target's 0.001 and 0.999
quantiles (within its support): mass outside moves to the ends. W1 is the integral over the
window of |F_model - F_target|, divided by the target's Q95 - Q05.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.core.exact.number_grid import GridSums, GridTarget
from pipeline.core.laws.family import Law
from pipeline.core.tries.digit_tokens import DigitTokens

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
    """The tokens whose log-probabilities are asked for, int64[C].

    Digit groups by length and by value (0 to 9, 00 to 99, ...), then minus, point, terminator.
    """
    ends = [digit_tokens.minus, digit_tokens.point, digit_tokens.terminator]
    return np.concatenate([*digit_tokens.groups, ends]).astype(np.int64)


@dataclass(frozen=True)
class NumberLawBounds:
    """Certified bounds; every pair holds for any remainder that was not expanded.

    Attributes:
        wasserstein_1_low: Of W1 / (Q95 - Q05) on the window; NaN where the width is 0.
        ks_low: Of the largest |F_model - F_target| on the window.
        support_low: Of the probability of a value in the support under the bounded law before that condition (1 for a
            law supported on all numbers).
        valid_low: Of the unconstrained model's valid rate.
        valid_high: Answers outside the grammar ("1e5", "+3") may be valid too.
        mass_outside: Unconstrained probability of leaving the grammar seen so far.
        mass_open: Probability under the bounded law of prefixes that were not expanded.
        positions: Prefixes scored.
        width: Requested width of the bounds of W1.
        distribution: Bounds of the distribution function (``GridSums.distribution``).
    """

    wasserstein_1_low: float
    wasserstein_1_high: float
    ks_low: float
    ks_high: float
    support_low: float
    support_high: float
    valid_low: float
    valid_high: float
    mass_outside: float
    mass_open: float
    positions: int
    width: float
    distribution: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def achieved_width(self) -> float:
        """Upper minus lower bound of normalised W1."""
        return self.wasserstein_1_high - self.wasserstein_1_low


# Prefixes that were not expanded ("blocks"). `raw` is their mass under the unconstrained model, `number`
# their digits as an integer, `decimals` how many of them are behind the point, `fractional` whether one of
# these is not 0, `gap` what not knowing their remainder adds to the width of the bounds (about).
_BLOCK = np.dtype(
    [
        *((name, "f8") for name in ("mass", "raw", "number", "low", "high", "gap")),
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
        self.tokens = candidate_tokens(digit_tokens)
        sizes = [len(group) for group in digit_tokens.groups]
        # Of each candidate: digits it adds and their value; the last three are minus, point and terminator.
        self.added = np.concatenate([*(np.full(n, k) for k, n in enumerate(sizes, start=1)), np.zeros(3, int)])
        self.value = np.concatenate([*(np.arange(n) for n in sizes), np.zeros(3)])
        self.minus, self.point, self.end = len(self.tokens) - 3, len(self.tokens) - 2, len(self.tokens) - 1
        self.sums = GridSums(self.target)
        self.paths: list[tuple[int, ...]] = []
        self.answered = self.invalid = self.raw_valid = self.raw_invalid = self.raw_outside = 0.0
        root = np.zeros(1, dtype=_BLOCK)
        root["mass"] = root["raw"] = 1
        root["parent"] = -1
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
        unfinished = np.where(state < WHOLE, probabilities[:, self.end], 0)
        probabilities[state != START, self.minus] = 0
        probabilities[(state == POINT) | (state == FRACTION), self.point] = 0
        probabilities[state < WHOLE, self.end] = 0
        inside = probabilities.sum(axis=1)
        self.raw_outside += float(blocks["raw"] @ np.maximum(1 - inside - unfinished, 0))
        self.raw_invalid += float(blocks["raw"] @ unfinished)
        # Where nothing can follow, the text so far is the answer, as at the length limit.
        self._resolve(blocks[inside == 0], raw=False)
        probabilities = probabilities[inside > 0]
        blocks, first_of = blocks[inside > 0], np.flatnonzero(inside > 0) + first
        mass = blocks["mass"][:, None] * probabilities / inside[inside > 0, None]
        rows, columns = np.nonzero(mass)
        children = self._children(blocks.take(rows), columns)
        children["mass"], children["parent"] = mass[rows, columns], first_of[rows]
        children["raw"] = blocks["raw"].take(rows) * probabilities[rows, columns]
        ended = (columns == self.end) | (children["length"] == self.max_new_tokens)
        self._resolve(children.compress(ended))
        self._place(children)
        impossible = ~ended & (children["low"] > children["high"])
        self.invalid += float(children["mass"][impossible].sum())
        # Whole records are copied once only, and by `compress` and `take`, which are ten times as fast as
        # indexing: there are up to 1,113 children per block.
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

    def _values(self, blocks: np.ndarray) -> np.ndarray:
        return np.where(blocks["negative"], -1.0, 1.0) * blocks["number"] / 10.0 ** blocks["decimals"]

    def _resolve(self, blocks: np.ndarray, *, raw: bool = True) -> None:
        """Count blocks as the answers that they are."""
        values, (lower, upper) = self._values(blocks), self.target.support
        valid = (blocks["state"] >= WHOLE) & (lower <= values) & (values <= upper)
        valid &= ~blocks["fractional"] if self.target.integer else True
        self.sums.add_answers(values[valid], blocks["mass"][valid])
        self.answered += float(blocks["mass"][valid].sum())
        self.invalid += float(blocks["mass"][~valid].sum())
        if raw:
            self.raw_valid += float(blocks["raw"][valid].sum())
            self.raw_invalid += float(blocks["raw"][~valid].sum())

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

    def result(self, width: float) -> NumberLawBounds:
        bounds = self.sums.bounds()
        scale = self.target.scale or math.nan
        everything = bounds["possible"] + self.invalid
        return NumberLawBounds(
            wasserstein_1_low=bounds["w1_low"] / scale,
            wasserstein_1_high=bounds["w1_high"] / scale,
            ks_low=bounds["ks_low"],
            ks_high=bounds["ks_high"],
            support_low=min(1.0, bounds["certain"] / everything) if everything > 0 else 0.0,
            support_high=min(1.0, bounds["possible"] / everything) if everything > 0 else 1.0,
            valid_low=min(1.0, self.raw_valid),
            valid_high=max(0.0, 1 - self.raw_invalid),
            mass_outside=self.raw_outside,
            mass_open=max(0.0, bounds["possible"] - self.answered),
            positions=len(self.paths),
            width=width,
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
    on_round: Callable[[NumberLawBounds], None] = lambda bounds: None,
) -> NumberLawBounds:
    """Bounds of the model's distance from ``law``, expanded until they are ``width`` apart.

    Args:
        law: The target; its support and whether it is an integer law decide which values are valid.
        digit_tokens: How the model's tokenizer writes plain decimals.
        score: ``score(paths)`` -> float64[len(paths), C], the model's log-probabilities
            (nats, full vocabulary) at ``candidate_tokens(digit_tokens)`` after each token path.
        width: Stop when upper - lower bound of normalised W1 is at most this (of KS, where
            Q95 = Q05 and W1 has no scale).
        max_positions: Stop after scoring this many prefixes.
        max_new_tokens: Longest answer in tokens, terminator included; a text that reaches
            it without terminator is the answer as it stands, as when sampling.
        round_size: Prefixes per call of ``score``; larger rounds are less selective.
        on_round: Called with the bounds after each round.

    Raises:
        ValueError: A width or budget that is not positive.
    """
    if not (width > 0 and max_positions > 0 and max_new_tokens > 0 and round_size > 0):
        raise ValueError("width, max_positions, max_new_tokens and round_size must be positive")
    search = _Search(law, digit_tokens, width, max_positions, max_new_tokens)
    while True:
        blocks = search.take(round_size)
        if len(blocks):
            paths = [search.path(block) for block in blocks]
            search.expand(blocks, paths, np.asarray(score(paths), dtype=np.float64))
        bounds = search.result(width)
        on_round(bounds)
        gap = bounds.ks_high - bounds.ks_low if math.isnan(bounds.achieved_width) else bounds.achieved_width
        if gap <= width or not len(blocks) or bounds.positions >= max_positions:
            return replace(bounds, distribution=search.sums.distribution())
