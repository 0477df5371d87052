"""Balance of the answer position over generated multiple-choice questions (arXiv:2605.11845, Section 4.2, D.6)."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pipeline.core.prompts.multiple_choice import LETTERS, McqFailure, ParsedQuestion
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval, wilson_interval

PARSERS = {"": "strict", "_tolerant": "tolerant"}
"""Suffix of metric and column names, and the parser it stands for. The paper's figures are the strict ones."""


def outcome(parsed: ParsedQuestion | McqFailure) -> str:
    """The answer's letter, or the reason why there is none."""
    return parsed.answer if isinstance(parsed, ParsedQuestion) else parsed.value


def letter_counts(outcomes: Sequence[str]) -> np.ndarray:
    """int64[4], how many outcomes are A, B, C and D; failures count nowhere."""
    found = Counter(outcomes)
    return np.array([found[letter] for letter in LETTERS], dtype=np.int64)


def total_variations(counts: np.ndarray) -> np.ndarray:
    """``total_variation`` of each row, float64[R], of int[R, K] counts; every row has at least one answer."""
    return np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / counts.shape[1]).sum(axis=1) / 2


def total_variation(counts: np.ndarray) -> float:
    """Total variation distance of the frequencies of int[K] ``counts`` from uniform; NaN without any.

    Half the L1 distance: 0 for balance, 1 - 1/K where all answers are the same.
    """
    return float(total_variations(counts[None])[0]) if counts.sum() else math.nan


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


def bootstrap_total_variation(counts: np.ndarray, replicates: int, rng: np.random.Generator) -> tuple[float, float]:
    """95% interval of the expected total variation at this number of answers.

    Redrawing answers is a multinomial draw with the observed frequencies. It adds the
    sampling error a second time and shifts the distance, which cannot be negative, upwards
    near its floor; so the percentile interval is moved by the bootstrap's own bias estimate
    and kept at or above 0 (as ``pipeline.axes.structured.wasserstein.bootstrap_prompt`` does for W1).

    The first sampling error stays in, as it does in the estimate: what is covered is the mean
    of the estimate over repeated runs of as many answers. A uniform sampler's is
    ``total_variation_floor``, so the interval is to be compared with the floor, not with 0.

    Args:
        counts: int64[K], answers by letter.
        replicates: Resamples.
        rng: The bootstrap's stream.

    Returns:
        (low, high); NaN with fewer than two answers.
    """
    if counts.sum() < 2:
        return math.nan, math.nan
    low, high = percentile_interval(total_variation_draws(counts, replicates, rng))
    return max(0.0, low), high


def total_variation_draws(counts: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """float64[replicates] total variation of redrawn answers, moved so that their mean is the observed one.

    Args:
        counts: int64[K], answers by letter; at least one.
        replicates: Resamples.
        rng: The bootstrap's stream.
    """
    size = int(counts.sum())
    draws = rng.multinomial(size, counts / size, size=replicates)
    values = total_variations(draws)
    return values - (values.mean() - total_variation(counts))


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


def metric_rows(per_prompt: pd.DataFrame, *, seed: int, names: tuple[str, ...], replicates: int) -> list[dict]:
    """Parse rate, total variation and share of each letter by both parsers, over all prompts together.

    Args:
        per_prompt: Rows of ``prompt_row``.
        seed: Root seed of the bootstrap; ``names`` complete its stream's name.
        names: Axis, model, condition, split.
        replicates: Resamples behind the interval of the total variation.

    Returns:
        Dictionaries with family (""), metric, value (NaN where undefined), n, ci_low, ci_high,
        floor, undefined. ``n`` counts generations for parse rates, else those that parse.
        Intervals of rates and shares are Wilson's.
    """
    rows, generated = [], int(per_prompt["num_samples"].sum())
    for suffix in PARSERS:
        counts = per_prompt[[f"count{suffix}_{letter.lower()}" for letter in LETTERS]].sum().to_numpy(dtype=np.int64)
        parsed = int(counts.sum())
        rows.append(_proportion(f"mcq_parse_rate{suffix}", parsed, generated))
        rng = random_stream(seed, "bootstrap", *names, f"mcq_total_variation{suffix}")
        interval = bootstrap_total_variation(counts, replicates, rng)
        floor = total_variation_floor(parsed)
        estimate = _estimate(total_variation(counts), parsed, interval)
        rows.append(metric_row(f"mcq_total_variation{suffix}", estimate, floor=floor))
        for letter, count in zip(LETTERS, counts.tolist(), strict=True):
            rows.append(_proportion(f"mcq_share{suffix}_{letter.lower()}", count, parsed))
    return rows


def failure_counts(per_prompt: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Generations by reason of failure, where there are any, under "mcq" (strict) and "mcq (tolerant)"."""
    counted = {}
    for suffix, split in (("", "mcq"), ("_tolerant", "mcq (tolerant)")):
        totals = {reason.value: int(per_prompt[f"invalid{suffix}_{reason.value}"].sum()) for reason in McqFailure}
        counted[split] = {reason: count for reason, count in totals.items() if count}
    return counted


def _estimate(value: float, n: int, interval: tuple[float, float]) -> Estimate:
    return Estimate(value, n, *interval, undefined=int(math.isnan(value)))


def _proportion(metric: str, successes: int, trials: int) -> dict:
    value = successes / trials if trials else math.nan
    return metric_row(metric, _estimate(value, trials, wilson_interval(successes, trials)))
