"""Balance of the answer position over generated multiple-choice questions (arXiv:2605.11845, Section 4.2, D.6)."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure, ParsedQuestion
from pipeline.core.statistics import law_check
from pipeline.core.statistics.summarise import Statistic, share_of

UNIFORM = np.full(len(LETTERS), 1 / len(LETTERS))


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


def prompt_row(prompt_id: str, outcomes: Sequence[str]) -> dict:
    """The outcome of each generation of a prompt as a row of the per-prompt table."""
    numbers = Counter(outcomes)
    counts = np.array([numbers[letter] for letter in LETTERS], dtype=np.int64)
    return {
        "prompt_id": prompt_id,
        "split": "mcq",
        "num_samples": len(outcomes),
        "num_parsed": int(counts.sum()),
        **{f"count_{letter.lower()}": numbers[letter] for letter in LETTERS},
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
