"""Balance of the answer position over generated multiple-choice questions (arXiv:2605.11845, Section 4.2, D.6)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure, ParsedQuestion
from pipeline.core.statistics import law_check
from pipeline.core.statistics.summarise import Statistic, share_of


def outcome(parsed: ParsedQuestion | McqFailure) -> str:
    """The answer's letter, or the reason why there is none."""
    return parsed.answer if isinstance(parsed, ParsedQuestion) else parsed.value


def total_variations(counts: np.ndarray) -> np.ndarray:
    """``total_variation`` of each row, float64[R], of int[R, K] counts."""
    return law_check.total_variations(counts, np.full(counts.shape[1], 1 / counts.shape[1]))


def total_variation(counts: np.ndarray) -> float:
    """Total variation distance of the frequencies of int[K] ``counts`` from uniform; NaN without any.

    Half the L1 distance: 0 for balance, 1 - 1/K where all answers are the same.
    """
    return float(total_variations(counts[None])[0])


def total_variation_floor(size: int, num_letters: int = len(LETTERS)) -> float:
    """Expected total variation of ``size`` independent uniform answers from uniform; NaN for size 0.

    Exact: with K letters every count is Bin(size, 1/K), so by linearity the expectation is
    K/2 times E|Bin(size, 1/K) / size - 1/K|, a finite sum.
    """
    if size == 0:
        return math.nan
    values = np.arange(size + 1)
    distances = np.abs(values / size - 1 / num_letters)
    return float(num_letters / 2 * (distances * stats.binom.pmf(values, size, 1 / num_letters)).sum())


def total_variation_draws(counts: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """float64[replicates] total variation of redrawn answers, moved so that their mean is the observed one.

    ``counts``: int64[K], answers by letter; at least one.
    """
    uniform = np.full(len(counts), 1 / len(counts))
    return total_variation(counts) + law_check.total_variation_deviations(counts, uniform, replicates, rng)


def prompt_row(prompt_id: str, outcomes: Sequence[str]) -> dict:
    """The ``outcome`` of each generation of a prompt as a row of the per-prompt table."""
    found = Counter(outcomes)
    counts = np.array([found[letter] for letter in LETTERS], dtype=np.int64)
    return {
        "prompt_id": prompt_id,
        "split": "mcq",
        "num_samples": len(outcomes),
        "num_parsed": int(counts.sum()),
        **{f"count_{letter.lower()}": found[letter] for letter in LETTERS},
        "total_variation": total_variation(counts),
        "floor": total_variation_floor(int(counts.sum())),
        **{f"invalid_{reason.value}": found[reason.value] for reason in McqFailure},
    }


def generation_rows(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row per generation of a condition, for ``STATISTICS``.

    ``outcomes`` has prompt_id, sample_index, outcome. Columns: generation, parsed, a to d (1 for the answer's letter,
    NaN where nothing parsed) and floor, the total variation of a uniform sampler of as many questions.
    """
    found = outcomes["outcome"].to_numpy()
    parsed = np.isin(found, LETTERS)
    return pd.DataFrame(
        {
            "generation": (outcomes["prompt_id"] + " " + outcomes["sample_index"].astype(str)).to_numpy(),
            "parsed": parsed.astype(float),
            **{letter.lower(): np.where(parsed, found == letter, np.nan) for letter in LETTERS},
            "floor": total_variation_floor(int(parsed.sum())),
        }
    )


_LETTERS = tuple(letter.lower() for letter in LETTERS)
_POSITION = Statistic(
    _LETTERS, lambda rows, weights: total_variations(weights @ rows[list(_LETTERS)].to_numpy(float)), centred=True
)
STATISTICS = {
    "mcq_parse_rate": share_of("parsed"),
    # What does not parse is counted by the parse rate; this is undefined only where nothing parses.
    "mcq_total_variation": replace(_POSITION, undefined=lambda rows: 0),
}
"""Of ``generation_rows``."""
