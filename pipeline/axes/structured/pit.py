"""Calibration on the probability scale: probability integral transforms (PIT) of samples and their uniformity.

Where the samples come from the law with distribution function F, u = F(x) is uniform on [0, 1] (Dawid 1984;
Diebold, Gunther and Tay 1998). On this scale every family has the same unit, and distances are finite for laws
without a mean, such as Cauchy's, whose W1 is infinite in the population.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from scipy import stats

from pipeline.core.laws.family import Law
from pipeline.core.prompts.number_answers import Invalid, strip_reasoning

NUM_BINS = 20
"""Bins of equal width in a histogram of PITs."""
LARGEST_CELL = 1 / NUM_BINS
"""Most of the law's probability over which a rounded answer is spread."""
SMALLEST_EXPECTED = 5.0
"""Expected count per bin from which on the chi-square law is taken for the chi-square statistic (Cochran 1954)."""

_LITERAL = re.compile(r"[+-]?[0-9]*(?:\.(?P<decimals>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+))?")


def printed_decimals(text: str) -> float:
    """Decimals at which a valid answer is printed: 2 for "3.14", 0 for "3" and "3.", 4 for "1.5e-3", -2 for "3e2".

    Whole numbers as floats, kept within -300 and 300, where powers of ten are finite.

    Raises:
        ValueError: The text is no decimal or scientific literal.
    """
    found = _LITERAL.fullmatch(strip_reasoning(text) or "")
    if found is None:
        raise ValueError(f"{text!r} is no number")
    # As floats: an exponent of any length is legal, and Python limits the digits of an integer.
    decimals = len(found["decimals"] or "") - float(found["exponent"] or 0)
    return min(max(decimals, -300.0), 300.0)


def valid_decimals(answers: Sequence[str | Invalid], valid: np.ndarray) -> np.ndarray:
    """float64[num_valid], ``printed_decimals`` of the answers that bool[N] ``valid`` marks."""
    return np.array([printed_decimals(answers[i]) for i in np.flatnonzero(valid)], dtype=np.float64)


def cumulative(law: Law, values: np.ndarray) -> np.ndarray:
    """F(x), float64 of the shape of ``values``."""
    # SciPy has some laws overflow to infinity on the way to a distribution function of 0 or 1.
    with np.errstate(over="ignore"):
        return law.distribution.cdf(values, **law.scipy_kwargs)


def randomised_pit(law: Law, values: np.ndarray, decimals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One uniform draw per value from what the law leaves open about its rank.

    Integer laws: u = F(x - 1) + v (F(x) - F(x - 1)) with v uniform, exactly uniform if x comes from the law
    (Brockwell 2007; Czado, Gneiting and Held 2009). Continuous laws: an answer with d decimals stands for all
    values that print alike, [x - h, x + h] with h = 10^-d / 2, and u is drawn from F over it; draws from the law
    that are rounded to d decimals are then uniform, too, and ties do not count as miscalibration. No answer is
    spread by more than LARGEST_CELL / 2 of the law's probability to either side: a sampler that answers a
    continuous law by a handful of round numbers differs from the law, and must not pass for rounded.

    Args:
        law: The target.
        values: float64[n], in its support.
        decimals: float64[n], ``printed_decimals`` of each; without effect for an integer law.
        rng: The stream of v.

    Returns:
        float64[n] in [0, 1].
    """
    if law.integer:
        low, high = cumulative(law, np.stack([values - 1, values]))
    else:
        half = 0.5 * 10.0**-decimals
        below, middle, above = cumulative(law, np.stack([values - half, values, values + half]))
        low = np.maximum(below, middle - LARGEST_CELL / 2)
        high = np.minimum(above, middle + LARGEST_CELL / 2)
    return np.clip(low + rng.random(len(values)) * (high - low), 0, 1)


def pit_wasserstein_1(ordered: np.ndarray) -> np.ndarray:
    """Mean |u_(i) - (i - 0.5) / n|, Eq. 5 of arXiv:2605.11845 for the PITs and the uniform law; float64[R].

    Between 0 and 1/2; NaN where n is 0.

    Args:
        ordered: float64[R, n], PITs in ascending order, R samples of them.
    """
    size = ordered.shape[1]
    if not size:
        return np.full(len(ordered), math.nan)
    return np.abs(ordered - (np.arange(size) + 0.5) / size).mean(axis=1)


def pit_ks(ordered: np.ndarray) -> np.ndarray:
    """Kolmogorov and Smirnov's largest |F_n(u) - u|, float64[R]; arguments as for ``pit_wasserstein_1``."""
    size = ordered.shape[1]
    if not size:
        return np.full(len(ordered), math.nan)
    ranks = np.arange(size + 1) / size
    return np.maximum(ranks[1:] - ordered, ordered - ranks[:-1]).max(axis=1)


def count_invalid_as_one(distance: np.ndarray | float, valid_rate: np.ndarray | float) -> np.ndarray | float:
    """A PIT distance over all answers, valid or not: valid_rate * distance + (1 - valid_rate).

    Each valid answer counts with the distance that its PIT has to move, each invalid one with 1, the whole range:
    more than any valid answer can. It equals ``distance`` where every answer is valid, grows with every further
    invalid answer, is 1 without a valid one, and never more.

    Args:
        distance: Mean over the valid answers, in [0, 1); NaN without one.
        valid_rate: Share of valid answers; NaN without any answer.
    """
    return np.where(np.asarray(valid_rate) == 0, 1.0, valid_rate * np.asarray(distance) + (1 - np.asarray(valid_rate)))


def histogram(pits: np.ndarray) -> np.ndarray:
    """int64[NUM_BINS] counts of PITs in bins of equal width, upper end in the last."""
    return np.histogram(pits, bins=NUM_BINS, range=(0.0, 1.0))[0].astype(np.int64)


def uniformity_tests(pits: np.ndarray) -> dict[str, float]:
    """Tests of float64[n] PITs against the uniform law, as columns of the per-prompt table.

    Returns:
        ``pit_ks_p``, the exact p-value of ``pit_ks`` (``scipy.stats.kstwo``), NaN without PITs; ``pit_chi_square``,
        Pearson's statistic over NUM_BINS bins, NaN below SMALLEST_EXPECTED per bin; and ``pit_chi_square_p`` with
        NUM_BINS - 1 degrees of freedom, which sees spikes that KS does not.
    """
    size = len(pits)
    ks_p = float(stats.kstwo.sf(pit_ks(np.sort(pits)[None])[0], size)) if size else math.nan
    if size / NUM_BINS < SMALLEST_EXPECTED:
        return {"pit_ks_p": ks_p, "pit_chi_square": math.nan, "pit_chi_square_p": math.nan}
    found = stats.chisquare(histogram(pits))
    return {"pit_ks_p": ks_p, "pit_chi_square": float(found.statistic), "pit_chi_square_p": float(found.pvalue)}
