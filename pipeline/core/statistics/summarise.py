"""One call for the numbers of an evaluation: value, sample size, interval, floor, and the paired change from base."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics import intervals
from pipeline.core.statistics.intervals import metric_row, percentile_interval, wilson_interval


class Nested(NamedTuple):
    """Resamples of families, of the rows of each (int64[R, F, M] places, -1 where a family has fewer than M), and of
    the samples behind each row: float64[R, F, M], at which share of the row's deviations the drawn one lies, or
    None."""

    rows: np.ndarray
    samples: np.ndarray | None = None


@dataclass(frozen=True)
class Statistic:
    """A number over the rows of a table.

    Attributes:
        columns: What it is computed from; rows in which one of them is not finite are left out.
        function: float64[R] from N rows and weights float64[R, N], how often each row counts.
        centred: Whether it is a distance that few rows make too large, such as a calibration error: its interval is
            then moved so that the resamples have the estimate as their mean, to be read against the floor.
        problem: Why it is undefined for a table; "" where it is defined.
        size: What the column ``n`` counts; None counts rows.
        interval: An interval in closed form in the place of the bootstrap's.
        undefined: What the column ``undefined`` counts; None counts rows that are left out.
        floor: What a perfect model scores in the place of these rows.
        nested: Whether the function takes ``Nested`` draws in the place of weights.
    """

    columns: tuple[str, ...]
    function: Callable[[pd.DataFrame, Any], np.ndarray]
    centred: bool = False
    problem: Callable[[pd.DataFrame], str] = lambda rows: ""
    size: Callable[[pd.DataFrame], float] | None = None
    interval: Callable[[pd.DataFrame], tuple[float, float]] | None = None
    undefined: Callable[[pd.DataFrame], int] | None = None
    floor: Callable[[pd.DataFrame], float] | None = None
    nested: bool = False


def mean_of(column: str) -> Statistic:
    return Statistic((column,), lambda rows, weights: weights @ rows[column].to_numpy(float) / weights.sum(axis=-1))


def share_of(column: str) -> Statistic:
    """The share of rows with a 1 in a column of 0 and 1, with Wilson's interval."""
    return replace(mean_of(column), interval=lambda rows: wilson_interval(float(rows[column].sum()), len(rows)))


def ratio_of(numerator: str, denominator: str, size: Callable[[pd.DataFrame], float] | None = None) -> Statistic:
    def ratios(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        above, below = (weights @ rows[name].to_numpy(float) for name in (numerator, denominator))
        with np.errstate(divide="ignore", invalid="ignore"):
            return above / below

    return Statistic((numerator, denominator), ratios, size=size)


def aggregate_of(
    column: str, statistic: intervals.Statistic = "family_median", size: Callable[[pd.DataFrame], float] | None = None
) -> Statistic:
    """A column of prompts, which come in families, by ``intervals.combine``. Arrays "COLUMN deviations" are how the
    value varies with its samples, which are then resampled as well; "COLUMN floors" are the scores of perfect
    samplers."""

    def numbers(rows: pd.DataFrame, drawn: Nested) -> np.ndarray:
        values, varies = intervals.at_places(rows[column].to_numpy(float), drawn.rows), f"{column} deviations"
        if drawn.samples is None or varies not in rows:
            return intervals.combine(values, statistic)
        deviations = np.stack(rows[varies])
        values += deviations[drawn.rows, (drawn.samples * deviations.shape[1]).astype(np.int64)]
        return np.maximum(0.0, intervals.combine(values, statistic))

    def problem(rows: pd.DataFrame) -> str:
        return "" if math.isfinite(numbers(rows, _whole(rows))[0]) else "no prompt of a family has a value"

    def undefined(rows: pd.DataFrame) -> int:
        finite = np.isfinite(rows[column].to_numpy(float))
        if statistic != "median":
            finite = pd.Series(finite).groupby(rows["family"].to_numpy()).any()
        return int((~finite).sum())

    def floor(rows: pd.DataFrame) -> float:
        if f"{column} floors" not in rows:
            return math.nan
        perfect, finite = np.stack(rows[f"{column} floors"], axis=1), np.isfinite(rows[column].to_numpy(float))
        drawn = intervals.at_places(np.where(finite, perfect, math.nan), _whole(rows).rows[0])
        return float(intervals.combine(drawn, statistic).mean())

    return Statistic((), numbers, problem=problem, size=size, undefined=undefined, floor=floor, nested=True)


def _whole(rows: pd.DataFrame) -> Nested:
    return Nested(intervals.by_family(rows["family"].to_numpy())[None])


def summarise(
    rows: pd.DataFrame,
    statistics: Mapping[str, Statistic],
    *,
    unit: str = "prompt_id",
    strata: str | None = None,
    floors: Mapping[str, str | float] | None = None,
    split: str = "all",
    seed: int,
    names: Sequence[str],
    replicates: int,
    by_family: Mapping[str, Statistic] | None = None,
) -> list[dict[str, Any]]:
    """Rows of metrics.csv for every condition and statistic, with 95% bootstrap intervals over units.

    ``rows`` have one row per condition and ``unit``. Each resample has the same units for all conditions, so changes
    are paired, over the units that are defined under both; those with one value in ``strata`` are resampled by
    themselves. ``floors`` have by metric what a perfect model scores, or the column whose mean it is; ``names`` (axis,
    model), split and family name the stream. With ``by_family`` (statistics of each family by itself) families are
    resampled first. Raises ValueError where a condition has a unit twice, KeyError where one lacks a unit of a family.
    """
    rows, summaries = rows.assign(stratum=rows[strata] if strata else ""), []
    for family in ["", *(rows["family"].drop_duplicates() if by_family else ())]:
        members = rows[rows["family"] == family] if family else rows
        units = members.drop_duplicates(unit).set_index(unit)
        rng = random_stream(seed, "bootstrap", *names, split, *([family] if family else []))
        draws = _draws(units, by_family is not None, replicates, rng)
        sides = {}
        for name, own in members.groupby("condition", sort=False):
            if own[unit].duplicated().any():
                raise ValueError(f"{name} has the {unit} {own.loc[own[unit].duplicated(), unit].iloc[0]!r} twice")
            own = own.set_index(unit, drop=False)
            sides[name] = own if by_family is None else own.loc[units.index]
        for condition, own in sides.items():
            for metric, statistic in (by_family if family else statistics).items():
                row = _summary(metric, statistic, own, draws, (floors or {}).get(metric, math.nan))
                change = (math.nan,) * 3
                if condition != "base" and "base" in sides and not row["note"]:
                    change = _change(statistic, own, sides["base"], draws)
                row |= dict(zip(("change", "change_low", "change_high"), change, strict=True))
                summaries.append({"condition": condition, "split": split, **row, "family": family})
    return summaries


class _Draws(NamedTuple):
    """Resamples by weight, with a row for each unit; and by place, where units come in families."""

    weights: pd.DataFrame
    nested: Nested | None


def _draws(units: pd.DataFrame, nested: bool, replicates: int, rng: np.random.Generator) -> _Draws:
    size = len(units)
    if not nested:
        drawn = np.empty((size, replicates))
        for places in units.groupby("stratum", sort=False).indices.values():
            number = len(places)
            drawn[places] = rng.multinomial(number, np.full(number, 1 / number), size=replicates).T
        return _Draws(pd.DataFrame(drawn, index=units.index), None)
    rows = intervals.family_draws(units["family"].to_numpy(), replicates, rng)
    weights = np.zeros((size + 1, replicates))
    np.add.at(weights, (rows, np.arange(replicates)[:, None, None]), 1)
    return _Draws(pd.DataFrame(weights[:-1], index=units.index), Nested(rows, rng.random(rows.shape)))


def _defined(statistic: Statistic, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[np.isfinite(rows[list(statistic.columns)].to_numpy(float)).all(axis=1)]


def _values(statistic: Statistic, rows: pd.DataFrame, draws: _Draws) -> tuple[float, np.ndarray]:
    """The value of a table, and its resamples float64[R]."""
    if statistic.nested:
        whole, drawn = _whole(rows), draws.nested
    else:
        whole, drawn = np.ones((1, len(rows))), draws.weights.loc[rows.index].to_numpy().T
        # A resample without any of the rows says nothing.
        drawn = drawn[drawn.sum(axis=1) > 0]
    value, resamples = float(statistic.function(rows, whole)[0]), statistic.function(rows, drawn)
    return value, resamples + (value - np.nanmean(resamples) if statistic.centred else 0.0)


def _interval(resamples: np.ndarray, rows: pd.DataFrame) -> tuple[float, float]:
    """NaN where a stratum has one row alone, unless the samples behind a single row vary."""
    several = rows["stratum"].value_counts().min() > 1
    varies = len(rows) == 1 and len(np.unique(resamples)) > 1
    return percentile_interval(resamples) if several or varies else (math.nan, math.nan)


def _summary(metric: str, statistic: Statistic, own: pd.DataFrame, draws: _Draws, floor: str | float) -> dict[str, Any]:
    rows = _defined(statistic, own)
    size = int(statistic.size(rows)) if statistic.size else len(rows)
    undefined = statistic.undefined(own) if statistic.undefined else len(own) - len(rows)
    note = statistic.problem(rows) if len(rows) else "no row has a value"
    if not note:
        value, resamples = _values(statistic, rows, draws)
        note = "" if math.isfinite(value) else "it does not vary"
    if note:
        return {**metric_row(metric, math.nan, size, undefined=max(1, undefined)), "note": note}
    low, high = statistic.interval(rows) if statistic.interval else _interval(resamples, rows)
    # No distance is below 0; an undefined end stays undefined.
    low = float(np.maximum(0.0, low)) if statistic.centred else low
    if statistic.floor is not None:
        floor = statistic.floor(rows)
    elif isinstance(floor, str):
        floor = float(rows[floor].mean())
    return {**metric_row(metric, value, size, (low, high), floor=floor, undefined=undefined), "note": ""}


def _change(statistic: Statistic, own: pd.DataFrame, base: pd.DataFrame, draws: _Draws) -> tuple[float, float, float]:
    first, second = _defined(statistic, own), _defined(statistic, base)
    shared = first.index.intersection(second.index, sort=False)
    first, second = first.loc[shared], second.loc[shared]
    if not len(shared) or statistic.problem(first) or statistic.problem(second):
        return (math.nan,) * 3
    (value, resamples), (other, others) = (_values(statistic, side, draws) for side in (first, second))
    return value - other, *_interval(resamples - others, first)
