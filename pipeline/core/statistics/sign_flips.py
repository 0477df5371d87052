"""The sign-flip test of a mean of paired differences, and the interval that is its inversion: p is at most .05 if and
only if the 95% interval leaves out 0."""

import itertools
import math
from typing import NamedTuple

import numpy as np

PATTERNS = 9_999
"""Random patterns of signs: near .01 a p-value is known to .001, after Holm over seven to .007."""
MOST_ENUMERATED = 13
"""Differences up to which all 2^n patterns of signs are tried."""
PATTERNS_PER_BLOCK = 1_000_000
"""Numbers in a block of patterns, which bounds memory."""


class Effect(NamedTuple):
    """A mean difference of ``n`` pairs with its 95% and 90% intervals and two-sided p, all of one test. p is at least
    2 / 2^n, so with fewer than six pairs (five at 90%) no interval is finite: its ends are NaN."""

    n: int
    estimate: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    p: float = math.nan
    low_90: float = math.nan
    high_90: float = math.nan


def sign_patterns(size: int, rng: np.random.Generator) -> np.ndarray:
    """int8[R, size] of 1 and -1, the observed signs first."""
    if size <= MOST_ENUMERATED:
        return np.array(list(itertools.product((1, -1), repeat=size)), dtype=np.int8)
    drawn = rng.integers(2, size=(PATTERNS, size), dtype=np.int8) * 2 - 1
    return np.concatenate([np.ones((1, size), dtype=np.int8), drawn])


def sign_flip_effect(differences: np.ndarray, rng: np.random.Generator) -> Effect:
    """The mean of float64[n] paired differences; those not finite are left out.

    A value m of the true mean is kept where at least 5% of all patterns of signs of the differences less m give a mean
    as far from 0 as the observed one. Each pattern does so from some m on, on either side of the estimate, so the ends
    are order statistics (Hartigan 1969, typical values). It takes the differences as symmetric about their mean.
    """
    differences = np.asarray(differences, dtype=np.float64)
    differences = differences[np.isfinite(differences)]
    size = len(differences)
    if size == 0:
        return Effect(0)
    weights = np.full(size, 1 / size)
    signs = sign_patterns(size, rng)
    blocks = np.array_split(signs, max(1, signs.size // PATTERNS_PER_BLOCK))
    sums = np.concatenate([block @ np.stack([weights * differences, weights], axis=1) for block in blocks])
    mean = float(weights @ differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The means of the differences whose signs are flipped, and of all others.
        sides = np.stack([mean - sums[:, 0], mean + sums[:, 0]]) / np.stack([1 - sums[:, 1], 1 + sums[:, 1]])
    # The same numbers summed in another order differ by rounding; a tie with 0 must count as one.
    sides[np.abs(sides) < 1e-12 * np.abs(differences).max()] = 0.0
    low, high = np.nanmin(sides, axis=0), np.nanmax(sides, axis=0)
    unflipped = np.abs(np.abs(sums[:, 1]) - 1) < 1e-12
    low[unflipped], high[unflipped] = -math.inf, math.inf
    extreme = np.ones(len(signs), dtype=bool) if mean == 0 else (low <= 0 if mean > 0 else high >= 0)
    low, high = np.sort(low), np.sort(high)
    return Effect(size, mean, *_ends(low, high, 0.05), float(extreme.mean()), *_ends(low, high, 0.1))


def _ends(low: np.ndarray, high: np.ndarray, significance: float) -> tuple[float, float]:
    """Of what a test at that level keeps, from the means from (up to) which each pattern is as extreme, ascending."""
    place = math.floor(significance * len(low) + 1e-9)
    ends = float(low[place]), float(high[-1 - place])
    return ends if all(map(math.isfinite, ends)) else (math.nan, math.nan)
