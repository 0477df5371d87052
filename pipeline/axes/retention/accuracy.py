"""TinyBenchmarks and GSM8K by column (a task under one metric, the paper's Table 21): gp-IRT and accuracy against base.
The mean over tasks counts GSM8K once, by flexible extraction (the paper's counts both); the whole of GSM8K has an
accuracy alone and enters no mean, unless there is nothing else."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.core.retention.irt import SCENARIOS, IrtScenario, estimate_performance
from pipeline.core.retention.tasks import ALL_COLUMNS, COLUMNS
from pipeline.core.statistics.summarise import Statistic, mean_of, share_of

GSM8K_COLUMNS = ("tinyGSM8k (flexible)", "tinyGSM8k (strict)", "GSM8K (flexible)", "GSM8K (strict)")
"""Columns of one benchmark; the first that there is stands for it in the mean over tasks."""
CONTINUOUS_METRICS = ("mc2",)
"""Metrics whose values lie in [0, 1]; all others are 0 or 1."""


def mean_columns(columns: Collection[str]) -> list[str]:
    """The columns that a mean over tasks is over: one per task."""
    left_out = [column for column in GSM8K_COLUMNS if column in columns][1:]
    return [column for column in columns if column not in left_out]


def split_statistics(
    columns: Sequence[str], scenarios: Mapping[str, IrtScenario]
) -> dict[str, tuple[list[str], dict[str, Statistic]]]:
    """By split, its columns and its metrics: each column by itself, and the means over tasks."""

    def mean_over(members: Sequence[str], *, by_irt: bool) -> Statistic:
        def mean(rows: pd.DataFrame, counts: np.ndarray) -> np.ndarray:
            parts = []
            for column in members:
                asked = rows[column].notna().to_numpy()
                values, own = rows[column].to_numpy(float)[asked], counts[:, asked]
                irt = scenarios[SCENARIOS[ALL_COLUMNS[column][0]]] if by_irt else None
                parts.append(estimate_performance(irt, values, own) if irt else own @ values / own.sum(axis=1))
            return np.mean(parts, axis=0)

        return Statistic((), mean)

    members = mean_columns(columns)
    splits = {}
    for column in columns:
        statistic_of = mean_of if ALL_COLUMNS[column][1] in CONTINUOUS_METRICS else share_of
        splits[column] = [column], {"accuracy": statistic_of(column)}
    splits["all"] = members, {"accuracy": mean_over(members, by_irt=False)}
    for split, (own, statistics) in splits.items():
        if own[0] in COLUMNS:
            statistics["gp_irt"] = mean_over(own, by_irt=True)
            if split == "all":
                twice = [column for column in columns if column in COLUMNS]
                statistics["gp_irt_paper_mean"] = mean_over(twice, by_irt=True)
    return splits
