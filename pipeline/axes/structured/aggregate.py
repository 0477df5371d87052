"""What is reported of the prompts of a split: statistics over families, and of each family by itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pandas as pd

from pipeline.axes.structured.fidelity import DISTANCES, UNIFORMITY_TESTS
from pipeline.axes.structured.tails import QUANTILE_ERRORS
from pipeline.core.statistics.condition_tests import TESTED
from pipeline.core.statistics.intervals import clustered_wilson_interval
from pipeline.core.statistics.summarise import (
    Statistic,
    aggregate_of,
    mean_of,
    ratio_of,
    share_of,
    without_interval,
)

REJECTED_BELOW = 0.05
"""Level of the tests of a prompt's answers, after Holm's adjustment."""


def total(column: str) -> Callable[[pd.DataFrame], float]:
    """The sum of a column, as what a metric's n counts."""
    return lambda rows: rows[column].sum()


VALID_RATE = ratio_of("num_valid", "num_samples", size=total("num_samples"))
"""Share of all generations that are valid."""
FAMILY_VALID_RATE = replace(
    VALID_RATE, interval=lambda rows: clustered_wilson_interval(*rows[["num_valid", "num_samples"]].to_numpy().T)
)
"""The same of a family, whose answers come by prompt. With one prompt per family, as in the paper's selection of unseen
parameters, there is no level of prompts: the interval is for redrawing that prompt's answers."""

_W1 = "wasserstein_1_normalised"
_OF_FAMILIES = {
    **{name: aggregate_of(name, size=total("num_valid")) for name in (_W1, "wasserstein_1_window_normalised")},
    f"{_W1}_at_budget": aggregate_of(f"{_W1}_at_budget", size=total("num_valid_at_budget")),
    **{name: aggregate_of(name, size=total("num_valid")) for name in DISTANCES},
    "pit_wasserstein_1_all_answers": aggregate_of("pit_wasserstein_1_all_answers", size=total("num_samples")),
}
OF_ANSWERS: Mapping[str, Statistic] = {
    **_OF_FAMILIES,
    **{name: aggregate_of(name, size=total("num_valid")) for name in QUANTILE_ERRORS},
    "answers_at_budget": mean_of("answers_at_budget"),
    "valid_rate_at_budget": mean_of("valid_rate_at_budget"),
    # What the paper's released code summarises.
    "wasserstein_1_family_mean": without_interval(
        aggregate_of("wasserstein_1", "family_mean", size=lambda rows: rows["wasserstein_1"].notna().sum())
    ),
    "tokens_per_answer": replace(
        without_interval(ratio_of("num_tokens", "num_valid", size=total("num_valid"))),
        undefined=lambda rows: int((rows["num_valid"] == 0).sum()),
    ),
    **{metric: share_of(metric) for metric in UNIFORMITY_TESTS},
    "valid_rate": VALID_RATE,
}
"""Over all families, under every condition."""
OF_FAMILIES: Mapping[str, Statistic] = {
    **_OF_FAMILIES,
    f"{_W1}_prompt_median": aggregate_of(
        _W1, "median", size=lambda rows: rows["num_valid"].where(rows[_W1].notna()).sum()
    ),
    "valid_rate": FAMILY_VALID_RATE,
}
"""Of each family by itself."""
OF_LOGITS = (
    "logit_kl_nats",
    "exact_wasserstein_1_normalised",
    "exact_wasserstein_1_normalised_low",
    "exact_wasserstein_1_normalised_high",
    "exact_support_rate",
    "logit_kl_rounded_law_nats",
)
"""Columns that are aggregated, over all families and of each, under conditions that have one at every prompt."""


def rejected(adjusted: pd.Series) -> pd.Series:
    """1 where an adjusted p-value rejects, 0 where it does not, NaN where nothing was tested."""
    return (adjusted <= REJECTED_BELOW).astype(float).where(adjusted.notna())


def summaries(rows: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Mapping[str, Statistic], Mapping[str, Statistic]]]:
    """Rows of a split, what is reported of them, and what by family: arguments of ``summarise``.

    ``rows``, one per condition and prompt, are the per-prompt table with ``Measured.arrays``.
    """
    shares = {metric: rejected(rows[f"{column}_adjusted"]) for metric, column in UNIFORMITY_TESTS.items()}
    yield rows.assign(**shares), OF_ANSWERS, OF_FAMILIES
    for column in (name for name in OF_LOGITS if name in rows):
        complete = rows[rows[column].notna().groupby(rows["condition"]).transform("all")]
        found = {column: aggregate_of(column, TESTED.get(column, "family_median"))}
        # The median stands beside the mean that is tabulated.
        more = {"logit_kl_family_median_nats": aggregate_of(column)} if column == "logit_kl_nats" else {}
        yield complete, found | more, found


def failure_counts(per_prompt: pd.DataFrame) -> dict[str, int]:
    """Answers by the reason why they are invalid, and valid but outlying samples, where there are any."""
    counts = per_prompt.filter(regex="^(invalid_|num_outliers$)").sum()
    named = counts.rename(lambda name: name.removeprefix("invalid_").replace("num_outliers", "valid_outlier"))
    return {reason: int(count) for reason, count in named.items() if count}
