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


def perplexity(nll_nats: np.ndarray, num_tokens: np.ndarray) -> np.ndarray:
    """exp(NLL / tokens), float64; infinite where that overflows, NaN without tokens. Compares within a tokenizer."""
    with np.errstate(over="ignore"):
        return np.exp(np.divide(nll_nats, np.where(np.asarray(num_tokens) > 0, num_tokens, np.nan)))


def bits_per_byte(nll_nats: np.ndarray, num_bytes: np.ndarray) -> np.ndarray:
    """NLL / (ln 2 * bytes), float64; NaN without bytes. Compares across tokenizers.

    Without a BOS token a document's first token is not scored while its bytes count, as in the paper; that
    makes the value a little smaller.
    """
    return np.divide(nll_nats, np.where(np.asarray(num_bytes) > 0, num_bytes, np.nan)) / math.log(2)


METRICS: dict[str, tuple[Callable, str, str]] = {
    "perplexity": (perplexity, "nll_nats", "num_tokens"),
    "bits_per_byte": (bits_per_byte, "nll_nats", "num_bytes"),
    "bits_per_byte_difference": (bits_per_byte, "change_nats", "num_bytes"),
}
"""By name the function, and the columns of documents whose sums it takes; ``change_nats`` is NLL less that of base."""


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
    """Tests of whether bits per byte changed, by slice and for all slices together: TEST_COLUMNS.

    ``p_difference`` flips the signs of the documents' differences of NLL at random (their sum is 0 if base and own can
    be swapped); ``p_equivalence`` is the larger of two one-sided t-tests of the ratio of sums, linearised, against
    ``margin``, the largest difference that counts as none. Both are adjusted by Holm over the slices; all slices
    together are a question by themselves, and pool the documents, which is a little more cautious than the interval's
    strata. ``documents`` are a condition's; ``differences`` the rows of ``bits_per_byte_difference`` by split.
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
