"""Perplexity and bits per byte from documents' negative log-likelihoods, with paired comparisons.

Both are ratios of sums over documents: perplexity is exp(sum of NLL / sum of scored tokens), bits per byte is
sum of NLL / (ln 2 * sum of UTF-8 bytes). Totals over slices are those of the pooled sums, as in the paper
(Appendix D.8), so a slice weighs by its size. Documents are the independent units of every interval and test.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import ALL_PARTS, adjusted_by_question
from pipeline.core.statistics.paired_tests import (
    PERMUTATIONS,
    TEST_COLUMNS,
    ratio_contributions,
    sign_flip_test,
    stratified_mean,
    tost,
    verdict,
)
from pipeline.core.statistics.summarise import Statistic

ALL = ALL_PARTS
SUFFIXES = {"model": "", "none": "_without_bos"}
"""Suffix of the metrics' names by BOS variant."""
SUMMED = ("nll_nats", "change_nats", "num_tokens", "num_bytes")
"""Columns of documents; ``change_nats`` is NLL less that of base, NaN where there is no base."""
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


METRICS = {
    "perplexity": (perplexity, "nll_nats", "num_tokens"),
    "bits_per_byte": (bits_per_byte, "nll_nats", "num_bytes"),
    "perplexity_ratio": (perplexity, "change_nats", "num_tokens"),
    "bits_per_byte_difference": (bits_per_byte, "change_nats", "num_bytes"),
}
"""By name the function, and the columns of documents whose sums it takes."""


def statistics(variant: str, against_base: bool) -> dict[str, Statistic]:
    """The metrics of a BOS variant's documents that are against base, or those that are not."""
    return {
        f"{metric}{SUFFIXES[variant]}": _of_sums(function, columns)
        for metric, (function, *columns) in METRICS.items()
        if against_base == ("change_nats" in columns)
    }


def _of_sums(function: Callable[..., np.ndarray], columns: Sequence[str]) -> Statistic:
    def values(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return function(*(weights @ rows[name].to_numpy(np.float64) for name in columns))

    return Statistic(tuple(columns), values)


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


def slice_table(documents: pd.DataFrame) -> pd.DataFrame:
    """Sums and metrics of every slice of a condition's documents, slices in their order.

    Columns are split, num_documents, num_unscored (documents without a scored token), the sums of SUMMED and METRICS;
    without ``change_nats`` and what needs it where there is no base.
    """
    groups = documents.groupby("slice", sort=False)
    table = groups.agg(
        num_documents=("nll_nats", "size"), num_unscored=("num_tokens", lambda tokens: (tokens == 0).sum())
    )
    table = table.join(groups[list(SUMMED)].sum(min_count=1).dropna(axis="columns", how="all"))
    for metric, (function, *columns) in METRICS.items():
        if set(columns) <= set(table):
            table[metric] = function(*(table[name] for name in columns))
    return table.rename_axis("split").reset_index()


def comparison_table(
    documents: pd.DataFrame,
    differences: Sequence[Mapping[str, Any]],
    *,
    variant: str,
    seed: int,
    names: Sequence[str],
    margin: float,
    significance: float,
) -> pd.DataFrame:
    """Tests of whether bits per byte changed, by slice and for all slices together, with a verdict.

    The difference is own - base in bits per byte. ``p_difference`` flips the signs of the documents' differences of NLL
    at random (their sum is 0 if base and own can be swapped); ``p_equivalence`` is the larger of two one-sided
    t-tests of the ratio of sums, linearised, against the margin. Both are adjusted by Holm over the
    slices. All slices together are one further question, asked by itself, so its adjusted p-values are the
    p-values; its t-tests pool the documents, which is a little more cautious than the interval's strata.

    Args:
        documents: One row per document of a condition: slice and SUMMED.
        differences: The rows of ``bits_per_byte_difference`` by split, as summarised.
        variant: A key of SUFFIXES.
        seed: Root seed of the sign flips; ``names`` complete their stream's name.
        names: Axis, model, condition.
        margin: Largest difference, in bits per byte, that counts as none.
        significance: Level of the verdict.

    Returns:
        TEST_COLUMNS, a row for each of ``differences``.
    """
    rows = []
    for found in differences:
        split = found["split"]
        chosen = documents if split == ALL else documents[documents["slice"] == split]
        changes = chosen["change_nats"].to_numpy()
        contributions = ratio_contributions(changes / math.log(2), chosen["num_bytes"])
        rng = random_stream(seed, "sign flips", *names, variant, split)
        rows.append(
            {
                "split": split,
                "metric": "bits_per_byte" + SUFFIXES[variant],
                "difference": found["value"],
                "ci_low": found["ci_low"],
                "ci_high": found["ci_high"],
                "margin": margin,
                "detectable": stratified_mean([contributions], [False]).detectable(significance),
                "p_difference": sign_flip_test(changes, PERMUTATIONS, rng),
                "p_equivalence": tost(contributions, margin),
            }
        )
    table = pd.DataFrame(rows, columns=list(TEST_COLUMNS))
    if table.empty:
        return table
    for name in ("p_difference", "p_equivalence"):
        table[f"{name}_adjusted"] = adjusted_by_question(table, name)
    table["verdict"] = [
        verdict(row.difference, row.p_difference_adjusted, row.p_equivalence_adjusted, significance, False)
        for row in table.itertuples()
    ]
    return table
