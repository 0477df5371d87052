"""Means and other statistics over questions for the metrics table, and paired changes from base."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.language.novelty_aggregate import split_rows
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval


def paired_rows(
    per_prompt: pd.DataFrame,
    base: pd.DataFrame,
    metrics: Mapping[str, str],
    differences: Sequence[str],
    floors: Mapping[str, float],
    *,
    seed: int,
    names: Sequence[str],
    replicates: int,
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, then those of paired changes from base.

    Args:
        per_prompt: A row for each question: prompt_id and the columns that ``metrics`` has as keys.
        base: Those of the base checkpoint on the same questions, in the same order.
        metrics: Reported metric by column.
        differences: Columns whose change from base is reported as well, as METRIC_difference.
        floors: Floor by column, of those that have one.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    changes = per_prompt[["prompt_id"]].assign(
        **{name: per_prompt[name].to_numpy() - base[name].to_numpy() for name in differences}
    )
    reported = {metrics[column]: floor for column, floor in floors.items()}
    rows = []
    for table, named in (
        (per_prompt, metrics),
        (changes, {name: f"{metrics[name]}_difference" for name in differences}),
    ):
        rows += split_rows(table, named, seed=seed, stream=tuple(names), bootstrap_replicates=replicates)
    return [{**row, "floor": reported.get(row["metric"], row["floor"])} for row in rows]


def resamples(size: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of ``size`` questions is in each bootstrap resample: float64[replicates, size]."""
    return rng.multinomial(size, np.full(size, 1 / size), size=replicates).astype(np.float64)


def paired_statistic(
    metric: str, statistic: Callable[..., np.ndarray], own: pd.DataFrame, base: pd.DataFrame, weights: np.ndarray
) -> list[dict[str, Any]]:
    """A statistic over questions with its 95% bootstrap interval, then its change from base as METRIC_difference.

    Args:
        metric: Reported metric.
        statistic: Of a table, and of a table under each of ``weights``.
        own: A row for each question.
        base: Those of the base checkpoint on the same questions, in the same order.
        weights: Of ``resamples``.
    """
    value, draws = float(statistic(own)), statistic(own, weights)
    change, changes = value - float(statistic(base)), draws - statistic(base, weights)
    return [
        value_row(metric, value, len(own), *percentile_interval(draws)),
        value_row(f"{metric}_difference", change, len(own), *percentile_interval(changes)),
    ]


def value_row(metric: str, value: float, size: int, low: float = math.nan, high: float = math.nan) -> dict[str, Any]:
    """A row of metrics.csv about ``size`` questions; without an interval where the value is undefined."""
    interval = (low, high) if math.isfinite(value) else ()
    return metric_row(metric, Estimate(value, size, *interval, undefined=int(not math.isfinite(value))))
