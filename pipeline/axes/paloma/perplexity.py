"""Perplexity and bits per byte from documents' negative log-likelihoods, with paired comparisons.

Both are ratios of sums over documents: perplexity is exp(sum of NLL / sum of scored tokens), bits per byte is
sum of NLL / (ln 2 * sum of UTF-8 bytes). Totals over slices are those of the pooled sums, as in the paper
(Appendix D.8), so a slice weighs by its size. Documents are the independent units of every interval and test.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import ALL_PARTS, adjusted_by_question
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval
from pipeline.core.statistics.paired_tests import (
    PERMUTATIONS,
    ratio_contributions,
    sign_flip_test,
    stratified_mean,
    tost,
    verdict,
)

ALL = ALL_PARTS
SUFFIXES = {"model": "", "none": "_without_bos"}
"""Suffix of the metrics' names by BOS variant."""
SUMMED = ("nll_nats", "base_nll_nats", "num_tokens", "num_bytes")
COMPARISONS = ("base_nll_nats", "perplexity_ratio", "bits_per_byte_difference")
"""What there is of a condition that is compared with base only."""
DRAWS_PER_BLOCK = 1 << 22


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Quotients, NaN where the denominator is 0."""
    numerator, denominator = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)


def perplexity(nll_nats: np.ndarray, num_tokens: np.ndarray) -> np.ndarray:
    """exp(NLL / tokens), float64 of the arguments' shape; infinite where that overflows, NaN without tokens.

    Args:
        nll_nats: Sums of negative log-likelihoods of tokens.
        num_tokens: Tokens scored; depends on the tokenizer, so values compare within a model only.
    """
    with np.errstate(over="ignore"):
        return np.exp(_ratio(nll_nats, num_tokens))


def bits_per_byte(nll_nats: np.ndarray, num_bytes: np.ndarray) -> np.ndarray:
    """NLL / (ln 2 * bytes), float64 of the arguments' shape; NaN without bytes. Compares across tokenizers.

    Without a BOS token a document's first token is not scored while its bytes count, as in the paper; that
    makes the value a little smaller.
    """
    return _ratio(nll_nats, np.asarray(num_bytes, np.float64) * math.log(2))


def _statistics(sums: np.ndarray) -> dict[str, np.ndarray]:
    """All metrics of float64[..., 4] sums of SUMMED."""
    own, base, tokens, num_bytes = np.moveaxis(sums, -1, 0)
    with np.errstate(over="ignore"):
        ratio = np.exp(_ratio(own - base, tokens))
    return {
        "perplexity": perplexity(own, tokens),
        "bits_per_byte": bits_per_byte(own, num_bytes),
        "perplexity_ratio": ratio,
        "bits_per_byte_difference": bits_per_byte(own - base, num_bytes),
    }


def resampled_sums(columns: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """float64[R, K] column sums of documents drawn with replacement.

    Args:
        columns: float64[n, K], a row per document.
        replicates: Resamples, R.
        rng: The bootstrap's stream.
    """
    size = len(columns)
    block = max(1, DRAWS_PER_BLOCK // size)
    parts = [
        rng.multinomial(size, np.full(size, 1 / size), size=min(block, replicates - start)) @ columns
        for start in range(0, replicates, block)
    ]
    return np.concatenate(parts)


def _interval(draws: np.ndarray, defined: bool) -> tuple[float, float]:
    """95% percentile interval; NaN where there is none."""
    if not defined or not np.isfinite(draws).all():
        return math.nan, math.nan
    return percentile_interval(draws)


def _members(documents: pd.DataFrame) -> dict[str, np.ndarray]:
    """float64[n, 4] columns of SUMMED by slice, slices in the order of the table."""
    groups = documents.groupby("slice", sort=False)
    return {str(name): group[list(SUMMED)].to_numpy(dtype=np.float64) for name, group in groups}


def slice_rows(documents: pd.DataFrame, variant: str, compared: bool) -> list[dict]:
    """Sums and metrics of every slice: split, bos, num_documents, num_unscored (documents without a scored token),
    SUMMED and, where ``compared``, the metrics against base; without it ``base_nll_nats`` is left out, too.
    """
    rows = []
    for name, columns in _members(documents).items():
        sums = columns.sum(axis=0)
        row = {
            "split": name,
            "bos": variant,
            "num_documents": len(columns),
            "num_unscored": int((columns[:, SUMMED.index("num_tokens")] == 0).sum()),
            **dict(zip(SUMMED, sums.tolist(), strict=True)),
            **{metric: float(value) for metric, value in _statistics(sums).items()},
        }
        row |= {"num_tokens": int(row["num_tokens"]), "num_bytes": int(row["num_bytes"])}
        rows.append({key: row[key] for key in row if compared or key not in COMPARISONS})
    return rows


def metric_rows(
    documents: pd.DataFrame, *, variant: str, seed: int, names: Sequence[str], replicates: int, compared: bool
) -> list[dict]:
    """Metrics of every slice and of all together under one BOS variant.

    The interval of all slices together resamples the documents within each. It is undefined (NaN), as a slice's
    is, where a slice has one document only.

    Args:
        documents: One row per document: slice and SUMMED; ``base_nll_nats`` is the base checkpoint's NLL of the
            same tokens, so ratio and difference are paired.
        variant: A key of SUFFIXES.
        seed: Root seed of the bootstrap; ``names`` (axis, model, condition) and the slice complete its stream's name.
        names: See ``seed``.
        replicates: Resamples.
        compared: Whether to give ``perplexity_ratio`` (own / base) and ``bits_per_byte_difference`` (own - base).

    Returns:
        Dictionaries with split, family (""), metric, value, n (documents), ci_low, ci_high, floor (NaN), undefined.
    """
    members = _members(documents)
    draws = {
        name: resampled_sums(columns, replicates, random_stream(seed, "bootstrap", *names, variant, name))
        for name, columns in members.items()
    }
    rows = []
    for split in (*members, ALL):
        inside = list(members) if split == ALL else [split]
        values = _statistics(sum(members[name].sum(axis=0) for name in inside))
        replicated = _statistics(sum(draws[name] for name in inside))
        defined = min(len(members[name]) for name in inside) > 1
        for metric, value in values.items():
            if not compared and metric in COMPARISONS:
                continue
            low, high = _interval(replicated[metric], defined and math.isfinite(value))
            size = sum(len(members[name]) for name in inside)
            estimate = Estimate(float(value), size, low, high, int(not math.isfinite(value)))
            rows.append({"split": split, **metric_row(metric + SUFFIXES[variant], estimate)})
    return rows


def comparison_rows(
    documents: pd.DataFrame,
    metrics: Sequence[Mapping],
    *,
    variant: str,
    seed: int,
    names: Sequence[str],
    margin: float,
    significance: float,
) -> list[dict]:
    """Tests of whether bits per byte changed, by slice and for all slices together, with a verdict.

    The difference is own - base in bits per byte. ``p_difference`` flips the signs of the documents' differences of NLL
    at random (their sum is 0 if base and own can be swapped); ``p_equivalence`` is the larger of two one-sided
    t-tests of the ratio of sums, linearised, against the margin. Both are adjusted by Holm over the
    slices. All slices together are one further question, asked by itself, so its adjusted p-values are the
    p-values; its t-tests pool the documents, which is a little more cautious than the interval's strata.

    Args:
        documents: As for ``metric_rows``.
        metrics: What ``metric_rows`` returned for them; the intervals are taken from there.
        variant: A key of SUFFIXES.
        seed: Root seed of the sign flips; ``names`` complete their stream's name.
        names: Axis, model, condition.
        margin: Largest difference, in bits per byte, that counts as none.
        significance: Level of the verdict.

    Returns:
        Dictionaries with TEST_COLUMNS.
    """
    members = _members(documents)
    name = "bits_per_byte_difference" + SUFFIXES[variant]
    found = {row["split"]: row for row in metrics if row["metric"] == name}
    rows = []
    for split in (*members, ALL):
        own, base, _, num_bytes = (np.concatenate(list(members.values())) if split == ALL else members[split]).T
        rng = random_stream(seed, "sign flips", *names, variant, split)
        contributions = ratio_contributions((own - base) / math.log(2), num_bytes)
        rows.append(
            {
                "split": split,
                "metric": "bits_per_byte" + SUFFIXES[variant],
                "difference": found[split]["value"],
                "ci_low": found[split]["ci_low"],
                "ci_high": found[split]["ci_high"],
                "margin": margin,
                "detectable": stratified_mean([contributions], [False]).detectable(significance),
                "p_difference": sign_flip_test(own - base, PERMUTATIONS, rng),
                "p_equivalence": tost(contributions, margin),
            }
        )
    for key in ("p_difference", "p_equivalence"):
        for row, value in zip(rows, adjusted_by_question(pd.DataFrame(rows), key).tolist(), strict=True):
            row[f"{key}_adjusted"] = value
    for row in rows:
        row["verdict"] = verdict(
            row["difference"],
            row["p_difference_adjusted"],
            row["p_equivalence_adjusted"],
            significance,
            higher_is_better=False,
        )
    return rows
