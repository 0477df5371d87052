"""One call for the numbers of an evaluation: value, sample size, interval, floor, and the paired change from base."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval, wilson_interval

Function = Callable[[pd.DataFrame, np.ndarray], np.ndarray]
"""float64[R] from a table of N rows and weights float64[R, N], how often each row counts."""


Interval = Callable[[pd.DataFrame], tuple[float, float]]
"""Ends of a 95% interval from the rows of a condition."""


@dataclass(frozen=True)
class Statistic:
    """A number over the rows of a table.

    Attributes:
        columns: What it is computed from; rows in which one of them is not finite are left out.
        function: Computes it.
        centred: Whether it is a distance that few rows make too large, such as a calibration error: its interval is
            then moved so that the resamples have the estimate as their mean, to be read against the floor.
        problem: Why it is undefined for a table; "" where it is defined.
        size: What the column ``n`` counts; None counts rows.
        interval: An interval in closed form in the place of the bootstrap's.
    """

    columns: tuple[str, ...]
    function: Function
    centred: bool = False
    problem: Callable[[pd.DataFrame], str] = lambda rows: ""
    size: Callable[[pd.DataFrame], float] | None = None
    interval: Interval | None = None


def mean_of(column: str) -> Statistic:
    """The mean of a column."""
    return Statistic((column,), lambda rows, weights: weights @ rows[column].to_numpy(float) / weights.sum(axis=-1))


def median_of(column: str) -> Statistic:
    """The median of a column."""

    def medians(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        values = rows[column].to_numpy(float)
        order = np.argsort(values, kind="stable")
        below = np.cumsum(weights[:, order], axis=1)
        size = below[:, -1:]
        ends = ((below > places).argmax(axis=1) for places in ((size - 1) // 2, size // 2))
        return np.mean([values[order][place] for place in ends], axis=0)

    return Statistic((column,), medians)


def share_of(column: str) -> Statistic:
    """The share of rows with a 1 in a column of 0 and 1, with Wilson's interval."""

    def interval(rows: pd.DataFrame) -> tuple[float, float]:
        return wilson_interval(float(rows[column].sum()), len(rows))

    return replace(mean_of(column), interval=interval)


def ratio_of(numerator: str, denominator: str, size: Callable[[pd.DataFrame], float] | None = None) -> Statistic:
    """The sum of one column over the sum of another."""

    def ratios(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        above, below = (weights @ rows[name].to_numpy(float) for name in (numerator, denominator))
        with np.errstate(divide="ignore", invalid="ignore"):
            return above / below

    return Statistic((numerator, denominator), ratios, size=size)


def without_interval(statistic: Statistic) -> Statistic:
    """The same number, reported without an interval."""
    return replace(statistic, interval=lambda rows: (math.nan, math.nan))


def summarise(
    rows: pd.DataFrame,
    statistics: Mapping[str, Statistic],
    *,
    unit: str = "prompt_id",
    strata: str | None = None,
    against: str = "base",
    floors: Mapping[str, str | float] | None = None,
    split: str = "all",
    seed: int,
    names: Sequence[str],
    replicates: int,
) -> list[dict[str, Any]]:
    """Rows of metrics.csv for every condition and statistic, with 95% bootstrap intervals over units.

    The draws are shared: each resample has the same units for all conditions and statistics, so changes are paired. A
    change is over the units that are defined under both conditions.

    Args:
        rows: One row per condition and unit, with columns ``condition``, ``unit`` and what the statistics need.
        statistics: By the name of the metric.
        unit: Column that names what is resampled.
        strata: Column whose groups of units are resampled each by itself; one of a single unit leaves no interval.
        against: The condition that changes are from.
        floors: By metric, what a perfect model scores, or the column of ``rows`` whose mean it is.
        split: Of the metrics.
        seed: Root seed of the draws; ``names`` and the split complete their stream's name.
        names: What the draws are of, e.g. axis and model.
        replicates: Resamples.

    Returns:
        ``metric_row`` with condition, split, change, change_low, change_high and note: why a value is undefined, or "".

    Raises:
        ValueError: A condition has a unit twice.
    """
    rows = rows.assign(stratum=rows[strata] if strata else "")
    draws = _draws(rows, unit, replicates, random_stream(seed, "bootstrap", *names, split))
    sides = {}
    for name, own in rows.groupby("condition", sort=False):
        if own[unit].duplicated().any():
            raise ValueError(f"{name} has the {unit} {own.loc[own[unit].duplicated(), unit].iloc[0]!r} twice")
        sides[name] = own.set_index(unit, drop=False)
    found = []
    for condition, own in sides.items():
        for metric, statistic in statistics.items():
            row = _summary(metric, statistic, own, draws, (floors or {}).get(metric, math.nan))
            change = (math.nan,) * 3
            if condition != against and against in sides and not row["note"]:
                change = _change(statistic, own, sides[against], draws)
            named = dict(zip(("change", "change_low", "change_high"), change, strict=True))
            found.append({"condition": condition, "split": split, **row, **named})
    return found


def _draws(rows: pd.DataFrame, unit: str, replicates: int, rng: np.random.Generator) -> pd.DataFrame:
    """float64[N, R], how often each resample holds each unit."""
    units = rows.drop_duplicates(unit, ignore_index=True)
    draws = np.empty((len(units), replicates))
    for _, own in units.groupby("stratum", sort=False):
        draws[own.index] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size=replicates).T
    return pd.DataFrame(draws, index=units[unit])


def _defined(statistic: Statistic, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[np.isfinite(rows[list(statistic.columns)].to_numpy(float)).all(axis=1)]


def _values(statistic: Statistic, rows: pd.DataFrame, draws: pd.DataFrame) -> tuple[float, np.ndarray]:
    """The value of a table, and its resamples float64[R], moved where the statistic is centred."""
    weights = draws.loc[rows.index].to_numpy().T
    # A resample without any of the rows says nothing.
    weights = weights[weights.sum(axis=1) > 0]
    value = float(statistic.function(rows, np.ones((1, len(rows))))[0])
    resamples = statistic.function(rows, weights)
    return value, resamples + (value - np.nanmean(resamples) if statistic.centred else 0.0)


def _interval(resamples: np.ndarray, rows: pd.DataFrame) -> tuple[float, float]:
    return percentile_interval(resamples) if rows["stratum"].value_counts().min() > 1 else (math.nan, math.nan)


def _summary(
    metric: str, statistic: Statistic, own: pd.DataFrame, draws: pd.DataFrame, floor: str | float
) -> dict[str, Any]:
    rows = _defined(statistic, own)
    size = int(statistic.size(rows)) if statistic.size else len(rows)
    note = statistic.problem(rows) if len(rows) else "no row has a value"
    if not note:
        value, resamples = _values(statistic, rows, draws)
        if not math.isfinite(value):
            note = "it does not vary"
    if note:
        return {**metric_row(metric, Estimate(math.nan, size, undefined=max(1, len(own) - len(rows)))), "note": note}
    low, high = statistic.interval(rows) if statistic.interval else _interval(resamples, rows)
    low = max(0.0, low) if statistic.centred else low
    estimate = Estimate(value, size, low, high, undefined=len(own) - len(rows))
    floor = float(rows[floor].mean()) if isinstance(floor, str) else floor
    return {**metric_row(metric, estimate, floor=floor), "note": ""}


def _change(
    statistic: Statistic, own: pd.DataFrame, base: pd.DataFrame, draws: pd.DataFrame
) -> tuple[float, float, float]:
    first, second = _defined(statistic, own), _defined(statistic, base)
    shared = first.index.intersection(second.index, sort=False)
    first, second = first.loc[shared], second.loc[shared]
    if not len(shared) or statistic.problem(first) or statistic.problem(second):
        return (math.nan,) * 3
    (value, resamples), (other, others) = (_values(statistic, side, draws) for side in (first, second))
    low, high = _interval(resamples - others, first)
    return value - other, low, high
