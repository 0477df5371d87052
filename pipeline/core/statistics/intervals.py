"""Aggregation over families, resampling, and intervals for what is reported."""

import math
import warnings
from typing import Any, Literal

import numpy as np
from scipy import special

Statistic = Literal["family_median", "family_mean", "median"]
NORMAL_QUANTILE = float(special.ndtri(0.975))


def metric_row(
    metric: str,
    value: float,
    n: int,
    interval: tuple[float, float] = (math.nan, math.nan),
    *,
    floor: float = math.nan,
    undefined: int = 0,
) -> dict[str, Any]:
    """A row of the metrics table, less what names the evaluation: ``n`` is the sample size in the metric's unit,
    ``floor`` what a perfect sampler scores at it, ``undefined`` the families (or prompts) without a finite value."""
    numbers = {"value": value, "n": n, "ci_low": interval[0], "ci_high": interval[1], "floor": floor}
    return {"family": "", "metric": metric, **numbers, "undefined": undefined}


def by_family(families: np.ndarray) -> np.ndarray:
    """int64[F, M] places of the prompts of each family among str[P]; -1 where it has fewer than the largest."""
    members = [np.flatnonzero(families == family) for family in dict.fromkeys(families.tolist())]
    places = np.full((len(members), max(map(len, members), default=0)), -1)
    for row, own in zip(places, members, strict=True):
        row[: len(own)] = own
    return places


def at_places(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values at places along the last axis; NaN at -1."""
    return np.concatenate([values, np.full((*values.shape[:-1], 1), math.nan)], axis=-1)[..., places]


def means_within(values: np.ndarray) -> np.ndarray:
    """Means of the finite values along the last axis; NaN without one."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, values, 0.0).sum(axis=-1) / finite.sum(axis=-1)


def combine(values: np.ndarray, statistic: Statistic) -> np.ndarray:
    """float64[...] of values [..., F, M] by family and prompt; those not finite are left out. "family_median" (the
    paper's) and "family_mean" of the means within families need a finite value in each (Section 4.2); "median" is of
    all."""
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        if statistic == "median":
            return np.nanmedian(np.where(np.isfinite(values), values, math.nan), axis=(-2, -1))
        return (np.mean if statistic == "family_mean" else np.median)(means_within(values), axis=-1)


def family_draws(families: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Resamples of families, then of the prompts in each: int64[replicates, F, M] places among str[P] families, -1
    where a drawn family has fewer than M prompts."""
    members = by_family(families)
    sizes = (members >= 0).sum(axis=1)
    chosen = rng.integers(len(members), size=(replicates, len(members)))
    ranks = (rng.random((*chosen.shape, members.shape[1])) * sizes[chosen][..., None]).astype(np.int64)
    drawn = np.take_along_axis(members[chosen], ranks, axis=-1)
    return np.where(np.arange(members.shape[1]) < sizes[chosen][..., None], drawn, -1)


def half_samples(size: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """bool[replicates, size], size // 2 values of a sample each, without replacement: resamples with ties lie too far
    from a law. A mean varies as over samples (the delete-half jackknife, Shao and Tu 1995, Section 2.3)."""
    chosen = np.zeros((replicates, size), dtype=bool)
    if size > 1:
        order = np.argpartition(rng.random((replicates, size)), size // 2, axis=1)[:, : size // 2]
        np.put_along_axis(chosen, order, True, axis=1)
    return chosen


def half_sample_deviations(values: np.ndarray, size: int) -> np.ndarray:
    """A statistic on ``half_samples`` less its mean there, which takes out the bias of a distance at half the size
    (Efron and Tibshirani 1993, Chapter 10), scaled for odd sizes; 0 where it is undefined."""
    if size < 2 or not np.isfinite(values).all():
        return np.zeros(len(values))
    half = size // 2
    return (values - values.mean()) * math.sqrt(half / (size - half))


def interval_of_deviations(value: float, deviations: np.ndarray) -> tuple[float, float]:
    """95% interval of a distance for redrawing its sample, from 0 on; NaN where nothing varies."""
    if not deviations.any():
        return math.nan, math.nan
    low, high = percentile_interval(deviations)
    return max(0.0, value + low), value + high


def percentile_interval(draws: np.ndarray) -> tuple[float, float]:
    """95% percentile interval of the finite draws; NaN where fewer than half are finite."""
    finite = draws[np.isfinite(draws)]
    if not len(draws) or len(finite) < len(draws) / 2:
        return math.nan, math.nan
    low, high = np.percentile(finite, [2.5, 97.5])
    return float(low), float(high)


def wilson_interval(successes: float, trials: float) -> tuple[float, float]:
    """95% Wilson score interval of a proportion; NaN without trials. Numbers need not be whole."""
    if trials == 0:
        return math.nan, math.nan
    rate, weight = successes / trials, NORMAL_QUANTILE**2 / trials
    centre = (rate + weight / 2) / (1 + weight)
    reach = math.sqrt(weight * rate * (1 - rate) + weight**2 / 4) / (1 + weight)
    # Exact ends where rounding would leave them a hair outside.
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    return low, 1.0 if successes == trials else min(1.0, centre + reach)


def clustered_wilson_interval(successes: np.ndarray, trials: np.ndarray) -> tuple[float, float]:
    """95% interval of a rate over answers that come in clusters (prompts), each with a rate of its own.

    Wilson's at an effective sample size (Korn and Graubard 1998): trials over the design effect (the variance between
    clusters over the binomial one, at least 1), times (z / t)^2 with Student's t at clusters - 1 degrees of freedom.
    """
    total, clusters = trials.sum(), int((trials > 0).sum())
    if total == 0 or clusters == 1:
        return wilson_interval(float(successes.sum()), float(total))
    rate = successes.sum() / total
    between = clusters / (clusters - 1) * ((successes - rate * trials) ** 2).sum() / total**2
    binomial = rate * (1 - rate) / total
    effect = max(1.0, between / binomial) if binomial > 0 else 1.0
    shrink = (NORMAL_QUANTILE / special.stdtrit(clusters - 1, 0.975)) ** 2 / effect
    return wilson_interval(float(successes.sum() * shrink), float(total * shrink))
