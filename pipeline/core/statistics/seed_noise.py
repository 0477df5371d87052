"""Spread of a metric between training seeds, and whether a difference to the best setting exceeds it."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

Verdict = Literal["best", "within seed noise", "beyond seed noise", "seed noise unknown", "undefined"]


@dataclass(frozen=True)
class Spread:
    """One setting's values over training seeds: mean, standard deviation (n - 1, NaN for one seed), lowest and highest.

    ``undefined`` counts seeds without a finite value. A mean over the others would hide that they failed, so all
    numbers are NaN unless it is 0.
    """

    seeds: int
    undefined: int
    mean: float
    deviation: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A setting's mean minus the best mean, NaN where its own is undefined; and the least difference that exceeds seed
    noise, NaN where that is unknown.
    """

    difference: float
    margin: float
    verdict: Verdict


def spread(values: Sequence[float]) -> Spread:
    """Summarise the values of one setting, one per seed. Raises ValueError without any."""
    if not values:
        raise ValueError("a spread needs at least one seed")
    undefined = sum(not math.isfinite(value) for value in values)
    if undefined:
        return Spread(len(values), undefined, math.nan, math.nan, math.nan, math.nan)
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return Spread(len(values), 0, statistics.fmean(values), deviation, min(values), max(values))


def pooled_deviation(spreads: Sequence[Spread]) -> tuple[float, int]:
    """Root of the mean variance within settings, weighted by degrees of freedom, and their number; NaN and 0 without
    any.
    """
    parts = [(item.seeds - 1, item.deviation**2) for item in spreads if math.isfinite(item.deviation)]
    freedom = sum(degrees for degrees, _ in parts)
    if not freedom:
        return math.nan, 0
    return math.sqrt(sum(degrees * variance for degrees, variance in parts) / freedom), freedom


def compare_with_best(
    spreads: Sequence[Spread], *, lower_is_better: bool = True, significance: float = 0.05
) -> list[Comparison]:
    """Compare each setting with the best by Tukey and Kramer's test of all pairs.

    The margin is q / sqrt(2) * s * sqrt(1 / n + 1 / n_best), with s the pooled standard deviation between seeds and
    q the studentised range's quantile. All pairs are allowed for because the best is picked by its result: its mean
    is flattered by chance. One variance is assumed for all settings, and seeds are taken as independent between
    settings. ``significance`` is the chance that any setting is called different where all are equal.
    """
    defined = [item for item in spreads if math.isfinite(item.mean)]
    if not defined:
        return [Comparison(math.nan, math.nan, "undefined") for _ in spreads]
    best = (min if lower_is_better else max)(defined, key=lambda item: item.mean)
    deviation, freedom = pooled_deviation(spreads)
    quantile = math.nan
    if freedom and len(defined) > 1:
        quantile = float(stats.studentized_range.ppf(1 - significance, len(defined), freedom)) / math.sqrt(2)
    compared = []
    for item in spreads:
        margin = quantile * deviation * math.sqrt(1 / item.seeds + 1 / best.seeds)
        difference, verdict = item.mean - best.mean, "seed noise unknown"
        if not math.isfinite(item.mean):
            margin, verdict = math.nan, "undefined"
        elif item is best:
            verdict = "best"
        elif math.isfinite(margin):
            verdict = "beyond seed noise" if abs(difference) > margin else "within seed noise"
        compared.append(Comparison(difference, margin, verdict))
    return compared
