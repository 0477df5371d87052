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
from pipeline.core.statistics.summarise import Function, Statistic, share_of

PARSERS = {"": "strict", "_tolerant": "tolerant"}
"""Suffix of metric and column names, and the parser it stands for. The paper's figures are the strict ones."""
FLOORS = {f"mcq_total_variation{suffix}": f"floor{suffix}" for suffix in PARSERS}


def outcome(parsed: ParsedQuestion | McqFailure) -> str:
    """The answer's letter, or the reason why there is none."""
    return parsed.answer if isinstance(parsed, ParsedQuestion) else parsed.value


def letter_counts(outcomes: Sequence[str]) -> np.ndarray:
    """int64[4], how many outcomes are A, B, C and D; failures count nowhere."""
    found = Counter(outcomes)
    return np.array([found[letter] for letter in LETTERS], dtype=np.int64)


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


def prompt_row(prompt_id: str, outcomes: pd.DataFrame) -> dict:
    """The result of one prompt as a row of the per-prompt table.

    Args:
        prompt_id: The prompt.
        outcomes: One row per generation: strict and tolerant (see ``outcome``), and truncated
            (bool), whether it ended at the token limit.

    Returns:
        prompt_id, num_samples, num_truncated, and for each parser (suffix "" or "_tolerant")
        num_parsed, num_failed_truncated (failures among truncated generations), count_a to
        count_d, total_variation, floor, and invalid_<reason>, the generations by reason.
    """
    truncated = outcomes["truncated"].to_numpy(dtype=bool)
    row = {"prompt_id": prompt_id, "num_samples": len(outcomes), "num_truncated": int(truncated.sum())}
    for suffix, parser in PARSERS.items():
        found = outcomes[parser].tolist()
        counts, reasons = letter_counts(found), Counter(found)
        failed = ~outcomes[parser].isin(LETTERS).to_numpy()
        row[f"num_parsed{suffix}"] = int(counts.sum())
        row[f"num_failed_truncated{suffix}"] = int((failed & truncated).sum())
        row.update(zip((f"count{suffix}_{x.lower()}" for x in LETTERS), counts.tolist(), strict=True))
        row[f"total_variation{suffix}"] = total_variation(counts)
        row[f"floor{suffix}"] = total_variation_floor(int(counts.sum()))
        row.update({f"invalid{suffix}_{reason.value}": reasons[reason.value] for reason in McqFailure})
    return row


def generation_rows(outcomes: pd.DataFrame) -> pd.DataFrame:
    """One row per generation of a condition, for ``statistics``.

    Args:
        outcomes: As for ``prompt_row``, with prompt_id and sample_index.

    Returns:
        generation, and for each parser (suffix "" or "_tolerant") parsed, a to d (1 for the answer's letter, NaN where
        nothing parsed) and floor, the total variation of a uniform sampler of as many questions.
    """
    names = outcomes["prompt_id"] + " " + outcomes["sample_index"].astype(str)
    rows = pd.DataFrame({"generation": names.to_numpy()})
    for suffix, parser in PARSERS.items():
        found = outcomes[parser].to_numpy()
        parsed = np.isin(found, LETTERS)
        rows[f"parsed{suffix}"] = parsed.astype(float)
        for letter in LETTERS:
            rows[f"{letter.lower()}{suffix}"] = np.where(parsed, found == letter, np.nan)
        rows[f"floor{suffix}"] = total_variation_floor(int(parsed.sum()))
    return rows


def statistics() -> dict[str, Statistic]:
    """Of ``generation_rows``: parse rate and total variation by both parsers, shares of letters by the strict one."""
    found = {}
    for suffix in PARSERS:
        columns = tuple(f"{letter.lower()}{suffix}" for letter in LETTERS)
        of_parsed = {f"mcq_total_variation{suffix}": Statistic(columns, _distance(columns), centred=True)}
        if not suffix:
            of_parsed |= {f"mcq_share_{column}": share_of(column) for column in columns}
        found[f"mcq_parse_rate{suffix}"] = share_of(f"parsed{suffix}")
        # What does not parse is counted by the parse rate; these are undefined only where nothing parses.
        found |= {name: replace(statistic, undefined=lambda rows: 0) for name, statistic in of_parsed.items()}
    return found


def _distance(columns: tuple[str, ...]) -> Function:
    return lambda rows, weights: total_variations(weights @ rows[list(columns)].to_numpy(float))


def failure_counts(per_prompt: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Generations by reason of failure, where there are any, under "mcq" (strict) and "mcq (tolerant)"."""
    counted = {}
    for suffix, split in (("", "mcq"), ("_tolerant", "mcq (tolerant)")):
        totals = {reason.value: int(per_prompt[f"invalid{suffix}_{reason.value}"].sum()) for reason in McqFailure}
        counted[split] = {reason: count for reason, count in totals.items() if count}
    return counted
