"""What is reported of the prompts of a split: statistics over families, and of each family by itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pandas as pd

from pipeline.axes.structured.ks import share_of_requests
from pipeline.core.statistics.intervals import clustered_wilson_interval
from pipeline.core.statistics.summarise import Statistic, aggregate_of, ratio_of


def total(column: str) -> Callable[[pd.DataFrame], float]:
    """The sum of a column, as what a metric's n counts."""
    return lambda rows: rows[column].sum()


VALID_RATE = ratio_of("num_valid", "num_samples", size=total("num_samples"))
FAMILY_VALID_RATE = replace(
    VALID_RATE, interval=lambda rows: clustered_wilson_interval(*rows[["num_valid", "num_samples"]].to_numpy().T)
)
"""Of a family, whose answers come by prompt. With one prompt per family, as in the paper's selection of unseen
parameters, there is no level of prompts: the interval is for redrawing that prompt's answers."""
_W1 = "wasserstein_1_normalised"
DISTANCES = {**dict.fromkeys((_W1, "pit_wasserstein_1"), "num_valid"), "pit_wasserstein_1_all_answers": "num_samples"}
_OF_DISTANCES = {name: aggregate_of(name, size=total(size)) for name, size in DISTANCES.items()}
OF_ANSWERS = {**_OF_DISTANCES, "valid_rate": VALID_RATE}
OF_FAMILIES = {
    **_OF_DISTANCES,
    f"{_W1}_prompt_median": aggregate_of(
        _W1, "median", size=lambda rows: rows["num_valid"].where(rows[_W1].notna()).sum()
    ),
    "valid_rate": FAMILY_VALID_RATE,
}
OF_LOGITS = {
    "logit_kl_nats": aggregate_of("logit_kl_nats", "family_mean"),
    **{
        name: aggregate_of(name)
        for name in ("logit_kl_rounded_law_nats", "exact_wasserstein_1_normalised", "exact_support_rate")
    },
}


def summaries(rows: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Mapping[str, Statistic], Mapping[str, Statistic]]]:
    """Rows of a split (one per condition and prompt), what is reported of them, and what by family."""
    yield rows, OF_ANSWERS, OF_FAMILIES
    for column in ("ks_at_100", "ks_at_100_all"):
        if column in rows:
            of_split, of_family = share_of_requests(column)
            yield rows, {column: of_split}, {column: of_family}
    for column, statistic in OF_LOGITS.items():
        if column in rows:
            complete = rows[rows[column].notna().groupby(rows["condition"]).transform("all")]
            yield complete, {column: statistic}, {column: statistic}
