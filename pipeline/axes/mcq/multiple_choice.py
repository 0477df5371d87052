"""Balance of the answer position over generated multiple-choice questions (arXiv:2605.11845, Section 4.2, D.6)."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure, ParsedQuestion
from pipeline.core.statistics import law_check
from pipeline.core.statistics.sign_flips import PATTERNS, Effect
from pipeline.core.statistics.summarise import Statistic, share_of

UNIFORM = np.full(len(LETTERS), 1 / len(LETTERS))
LETTER_COUNTS = [f"count_{letter.lower()}" for letter in LETTERS]
"""Columns of the per-prompt table."""


def outcome(parsed: ParsedQuestion | McqFailure) -> str:
    """The answer's letter, or the reason why there is none."""
    return parsed.answer if isinstance(parsed, ParsedQuestion) else parsed.value


def total_variations(counts: np.ndarray) -> np.ndarray:
    """Total variation of the frequencies of int[R, K] answers by letter from uniform, float64[R]; NaN without any."""
    return law_check.total_variations(counts, UNIFORM)


def total_variation(counts: np.ndarray) -> float:
    """``total_variations`` of int[K] answers."""
    return float(total_variations(counts[None])[0])


def total_variation_floor(size: int) -> float:
    """Expected total variation of ``size`` independent uniform answers from uniform; NaN for size 0. By linearity K/2
    times E|Bin(size, 1/K) / size - 1/K|, a finite sum."""
    if size == 0:
        return math.nan
    letters, values = len(LETTERS), np.arange(size + 1)
    distances = np.abs(values / size - 1 / letters)
    return float(letters / 2 * (distances * stats.binom.pmf(values, size, 1 / letters)).sum())


def letter_variances(counts: np.ndarray) -> np.ndarray:
    """Of one answer's part in the total variation of int[R, K] answers, float64[R]: the distance is the mass on the
    letters above their share, less a constant."""
    size = counts.sum(axis=1)
    above = np.where(counts > size[:, None] * UNIFORM, counts, 0).sum(axis=1) / size
    return above * (1 - above)


def total_variation_effect(own: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> Effect:
    """The difference of the distances from uniform of two independent samples of letters, int64[K], with the intervals
    that are the inversion of its permutation test; no p for samples of fewer than two.

    The letters of both are dealt to two samples of the same sizes. The statistic is the difference over its standard
    error, without which it would reject equal distances on different letters (Janssen 1997), less the mean over the
    deals: a smaller sample lies farther from uniform by chance.
    """
    sizes = int(own.sum()), int(other.sum())
    if min(sizes) < 2:
        return Effect(min(sizes), total_variation(own) - total_variation(other))
    dealt = rng.multivariate_hypergeometric(own + other, sizes[0], size=PATTERNS)
    first, second = np.concatenate([own[None], dealt]), np.concatenate([other[None], own + other - dealt])
    differences = total_variations(first) - total_variations(second)
    variances = letter_variances(first) / sizes[0] + letter_variances(second) / sizes[1]
    errors = np.maximum(np.sqrt(variances), 1e-9)
    centred = differences / errors
    centre = float(centred[1:].mean())
    # Equal statistics of other letters differ by rounding.
    distances = np.round(np.abs(centred - centre), 9)
    p, ends = float((distances >= distances[0]).mean()), []
    for significance in (0.05, 0.1):
        reach = np.sort(distances)[-1 - math.floor(significance * len(distances))]
        ends += [float((round(centred[0] - centre, 9) - side * reach) * errors[0]) for side in (1, -1)]
    return Effect(min(sizes), float(differences[0]), *ends[:2], p, *ends[2:])


def prompt_row(prompt_id: str, outcomes: Sequence[str]) -> dict:
    """The outcome of each generation of a prompt as a row of the per-prompt table."""
    numbers = Counter(outcomes)
    counts = np.array([numbers[letter] for letter in LETTERS], dtype=np.int64)
    return {
        "prompt_id": prompt_id,
        "split": "mcq",
        "num_samples": len(outcomes),
        "num_parsed": int(counts.sum()),
        **dict(zip(LETTER_COUNTS, counts.tolist(), strict=True)),
        "total_variation": total_variation(counts),
        "floor": total_variation_floor(int(counts.sum())),
        **{f"invalid_{reason.value}": numbers[reason.value] for reason in McqFailure},
    }


def generation_rows(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row per generation, for ``STATISTICS``, of prompt_id, sample_index and outcome (a letter, or why there is
    none): parsed, a to d (1 for the answer's letter, NaN where nothing parsed) and floor, that of a uniform sampler."""
    outcome = outcomes["outcome"]
    parsed = outcome.isin(LETTERS)
    return pd.DataFrame(
        {
            "generation": outcomes["prompt_id"] + " " + outcomes["sample_index"].astype(str),
            "parsed": parsed.astype(float),
            **{
                letter.lower(): (outcomes["outcome"] == letter).where(parsed, np.nan).astype(float)
                for letter in LETTERS
            },
            "floor": total_variation_floor(int(parsed.sum())),
        }
    )


_LETTERS = [letter.lower() for letter in LETTERS]
STATISTICS = {
    "mcq_parse_rate": share_of("parsed"),
    # What does not parse is counted by the parse rate; this is undefined only where nothing parses.
    "mcq_total_variation": Statistic(
        tuple(_LETTERS),
        lambda rows, weights: total_variations(weights @ rows[_LETTERS].to_numpy(float)),
        centred=True,
        undefined=lambda rows: 0,
    ),
}
