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
    """One setting's values over training seeds; NaN where ``undefined`` seeds have no finite value."""

    seeds: int
    undefined: int
    mean: float = math.nan
    deviation: float = math.nan
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Comparison:
    """A setting's mean minus the best mean, and the least difference that exceeds seed noise; NaN where undefined."""

    difference: float
    margin: float
    verdict: Verdict


def spread(values: Sequence[float]) -> Spread:
    """Summarise the values of one setting, one per seed."""
    if undefined := sum(not math.isfinite(value) for value in values):
        return Spread(len(values), undefined)
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return Spread(len(values), 0, statistics.fmean(values), deviation, min(values), max(values))


def compare_with_best(
    spreads: Sequence[Spread], *, lower_is_better: bool = True, significance: float = 0.05
) -> list[Comparison]:
    """Compare each setting with the best by Tukey and Kramer's test of all pairs, as the best is picked by its result:
    q / sqrt(2) * s * sqrt(1 / n + 1 / n_best), with s the pooled deviation and q the studentised range's quantile."""
    defined = [item for item in spreads if math.isfinite(item.mean)]
    if not defined:
        return [Comparison(math.nan, math.nan, "undefined") for _ in spreads]
    best = (min if lower_is_better else max)(defined, key=lambda item: item.mean)
    repeated = [item for item in defined if item.seeds > 1]
    freedom, scale = sum(item.seeds - 1 for item in repeated), math.nan
    if freedom and len(defined) > 1:
        deviation = math.sqrt(sum((item.seeds - 1) * item.deviation**2 for item in repeated) / freedom)
        scale = float(stats.studentized_range.ppf(1 - significance, len(defined), freedom)) / math.sqrt(2) * deviation
    compared = []
    for item in spreads:
        margin = scale * math.sqrt(1 / item.seeds + 1 / best.seeds)
        difference, verdict = item.mean - best.mean, "seed noise unknown"
        if not math.isfinite(item.mean):
            margin, verdict = math.nan, "undefined"
        elif item is best:
            verdict = "best"
        elif math.isfinite(margin):
            verdict = "beyond seed noise" if abs(difference) > margin else "within seed noise"
        compared.append(Comparison(difference, margin, verdict))
    return compared
