"""Aggregation over families and intervals for what is reported."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """A reported number. ``value`` is NaN where undefined; ``undefined`` counts why.

    Attributes:
        value: The estimate.
        n: Sample size behind it, in the unit that the metric's docstring names.
        ci_low: Lower end of the 95% interval, NaN where there is none.
        ci_high: Upper end.
        undefined: Number of families (or prompts) without a finite value.
    """

    value: float
    n: int
    ci_low: float = math.nan
    ci_high: float = math.nan
    undefined: int = 0


def family_means(values: np.ndarray, families: np.ndarray) -> dict[str, float]:
    """Mean of the finite values of each family, NaN for a family that has none."""
    means = {}
    for family in dict.fromkeys(families.tolist()):
        members = values[families == family]
        finite = members[np.isfinite(members)]
        means[family] = float(finite.mean()) if len(finite) else math.nan
    return means


def family_median(values: np.ndarray, families: np.ndarray) -> float:
    """The paper's aggregate: mean within family, median across families.

    Undefined (NaN) as soon as one family has no finite value (Section 4.2).

    Args:
        values: float64[P], one per prompt.
        families: str[P].
    """
    means = np.array(list(family_means(values, families).values()))
    return float(np.median(means)) if len(means) and np.isfinite(means).all() else math.nan


def bootstrap_families(
    values: np.ndarray,
    families: np.ndarray,
    statistic: Callable[[np.ndarray, np.ndarray], float],
    *,
    replicates: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """95% percentile interval of ``statistic(values, families)``, resampling families, then prompts.

    Families are the independent units; the error of each prompt's own estimate is part of
    the spread between them, so generations need no third level. A family drawn twice
    counts as two families.

    Returns:
        (low, high); NaN where the statistic itself is undefined or there is one prompt only.
    """
    if len(values) < 2 or not math.isfinite(statistic(values, families)):
        return math.nan, math.nan
    members = [np.flatnonzero(families == family) for family in dict.fromkeys(families.tolist())]
    draws = np.empty(replicates)
    for replicate in range(replicates):
        chosen = rng.integers(len(members), size=len(members)) if len(members) > 1 else [0]
        rows = [rng.choice(members[family], size=len(members[family])) for family in chosen]
        labels = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        draws[replicate] = statistic(values[np.concatenate(rows)], labels)
    finite = draws[np.isfinite(draws)]
    if len(finite) < replicates / 2:
        return math.nan, math.nan
    low, high = np.percentile(finite, [2.5, 97.5])
    return float(low), float(high)


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """95% Wilson score interval of a proportion (Wilson 1927); NaN without trials."""
    if trials == 0:
        return math.nan, math.nan
    interval = stats.binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)
