"""Aggregation over families and intervals for what is reported."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

Statistic = Literal["family_median", "family_mean", "mean"]
NORMAL_QUANTILE = float(stats.norm.ppf(0.975))


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


def metric_row(metric: str, estimate: Estimate, *, family: str = "", floor: float = math.nan) -> dict[str, Any]:
    """A reported number as a row of the metrics table, less what names the evaluation.

    Args:
        metric: Its name.
        estimate: The number.
        family: Family of distributions, "" on aggregates.
        floor: What a perfect sampler scores at this sample size, NaN where there is no such thing.
    """
    return {
        "family": family,
        "metric": metric,
        "value": estimate.value,
        "n": estimate.n,
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "floor": floor,
        "undefined": estimate.undefined,
    }


def family_means(values: np.ndarray, families: np.ndarray) -> dict[str, float]:
    """Mean of the finite values of each family, NaN for a family that has none."""
    means = {}
    for family in dict.fromkeys(families.tolist()):
        members = values[families == family]
        finite = members[np.isfinite(members)]
        means[family] = float(finite.mean()) if len(finite) else math.nan
    return means


def over_families(
    values: np.ndarray, families: np.ndarray, statistic: Literal["family_median", "family_mean"] = "family_median"
) -> float:
    """Mean within family, then the median (the paper's aggregate) or the mean across families.

    Undefined (NaN) as soon as one family has no finite value (Section 4.2).

    Args:
        values: float64[P], one per prompt.
        families: str[P].
        statistic: "family_median" or "family_mean".
    """
    means = np.array(list(family_means(values, families).values()))
    if not len(means) or not np.isfinite(means).all():
        return math.nan
    return float((np.mean if statistic == "family_mean" else np.median)(means))


def _combine(sums: np.ndarray, counts: np.ndarray, statistic: Statistic) -> np.ndarray:
    """float64[...] statistics from sums and numbers of finite values, [..., F] by family."""
    # What has no finite value is 0 / 0 here: undefined, and so is a median that it is part of.
    with np.errstate(invalid="ignore"):
        if statistic == "mean":
            return sums.sum(axis=-1) / counts.sum(axis=-1)
        return (np.mean if statistic == "family_mean" else np.median)(sums / counts, axis=-1)


def bootstrap_families(
    values: np.ndarray,
    families: np.ndarray,
    statistic: Statistic,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """95% percentile interval of a statistic of ``values``, resampling families, then prompts.

    Families are the independent units; the error of each prompt's own estimate is part of
    the spread between them, so generations need no third level. A family drawn twice
    counts as two families.

    Args:
        values: float64[P], one per prompt; NaN where undefined.
        families: str[P].
        statistic: "family_median" or "family_mean" (``over_families``), or "mean", over all finite values.
        replicates: Resamples.
        rng: The bootstrap's stream.

    Returns:
        (low, high); NaN where the statistic itself is undefined or there is one prompt only.
    """
    finite, filled = np.isfinite(values), np.where(np.isfinite(values), values, 0.0)
    members = [np.flatnonzero(families == family) for family in dict.fromkeys(families.tolist())]
    sums = np.array([[filled[rows].sum() for rows in members]])
    counts = np.array([[finite[rows].sum() for rows in members]])
    if len(values) < 2 or not np.isfinite(_combine(sums, counts, statistic)).all():
        return math.nan, math.nan
    chosen = rng.integers(len(members), size=(replicates, len(members)))
    sums, counts = np.empty(chosen.shape), np.empty(chosen.shape)
    for family, rows in enumerate(members):
        drawn = chosen == family
        picks = rows[rng.integers(len(rows), size=(int(drawn.sum()), len(rows)))]
        sums[drawn], counts[drawn] = filled[picks].sum(axis=1), finite[picks].sum(axis=1)
    return percentile_interval(_combine(sums, counts, statistic))


def half_samples(size: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """bool[replicates, size], which values are in each half of a sample, drawn without replacement.

    For distances from a law, whose resamples with replacement have ties and so lie too far from it. A statistic that
    is a mean has the same variance over half-samples as over samples (the delete-half jackknife, Shao and Tu 1995,
    Section 2.3); ``half_sample_deviations`` corrects for odd sizes. Halves have size // 2 values.
    """
    chosen = np.zeros((replicates, size), dtype=bool)
    if size > 1:
        order = np.argpartition(rng.random((replicates, size)), size // 2, axis=1)[:, : size // 2]
        np.put_along_axis(chosen, order, True, axis=1)
    return chosen


def half_sample_deviations(values: np.ndarray, size: int) -> np.ndarray:
    """How a statistic varies with the sample: its values on halves less their mean; 0 where they are undefined.

    Centring takes out the bias that a distance has at half the size (Efron and Tibshirani 1993, Chapter 10): the
    interval is for the statistic's mean at the full size, to be read against a perfect sampler's at that size.

    Args:
        values: float64[B], the statistic on ``half_samples``.
        size: Size of the full sample.
    """
    if size < 2 or not np.isfinite(values).all():
        return np.zeros(len(values))
    half = size // 2
    return (values - values.mean()) * math.sqrt(half / (size - half))


def hierarchical_bootstrap(
    values: np.ndarray,
    families: np.ndarray,
    statistic: Statistic,
    *,
    replicates: int,
    rng: np.random.Generator,
    deviations: np.ndarray | None = None,
) -> tuple[float, float]:
    """95% percentile interval of a statistic of prompts: training seeds, families, prompts and samples resampled.

    Families are drawn with replacement, then prompts within each drawn family, then for every drawn prompt one of
    the deviations that redrawing its samples makes. Training seeds are crossed with prompts, not above them: every
    seed answers the same prompts, so seeds are drawn independently of families and a prompt's value is the mean over
    the drawn seeds (the crossed bootstrap of Owen 2007).

    Resampling at every level counts part of the lower levels' variance twice (Davison and Hinkley 1997,
    Section 3.8), which makes the interval a little wide where a family has few prompts and many samples' error; a
    percentile interval over few families is too narrow by a factor of about sqrt(1 - 1 / F). One seed says nothing
    about the spread between seeds: the interval is then for the trained model at hand.

    Args:
        values: float64[P] by prompt, or float64[S, P] by training seed and prompt; NaN where undefined.
        families: str[P].
        statistic: As for ``bootstrap_families``, of the means over seeds.
        replicates: Resamples.
        rng: The bootstrap's stream.
        deviations: float64[P, B] or [S, P, B], see ``half_sample_deviations``; None leaves the level out.

    Returns:
        (low, high); NaN where the statistic itself is undefined, or where there is neither a second prompt or seed
        nor a deviation.
    """
    values = np.atleast_2d(values)
    deviations = np.zeros((*values.shape, 1)) if deviations is None else deviations.reshape(*values.shape, -1)
    members = [np.flatnonzero(families == family) for family in dict.fromkeys(families.tolist())]
    sums, counts = np.stack([_finite_sums(values[:, rows].mean(axis=0)) for rows in members], axis=-1)
    defined = np.isfinite(_combine(sums[None], counts[None], statistic)).all()
    if (values.size < 2 and not deviations.any()) or not defined:
        return math.nan, math.nan
    return percentile_interval(_combine(*_hierarchical_sums(values, deviations, members, replicates, rng), statistic))


def _hierarchical_sums(
    values: np.ndarray, deviations: np.ndarray, members: Sequence[np.ndarray], replicates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and numbers of finite values, float64[R, F] by replicate and drawn family.

    Args:
        values: float64[S, P].
        deviations: float64[S, P, B].
        members: Prompts of each family.
        replicates: Resamples, R.
        rng: The bootstrap's stream.
    """
    chosen = rng.integers(len(members), size=(replicates, len(members)))
    seeds = rng.integers(len(values), size=(replicates, len(values)))
    sums, counts = np.empty(chosen.shape), np.empty(chosen.shape)
    for family, rows in enumerate(members):
        drawn = chosen == family
        # [draws, seeds, prompts]: the prompts are the same for all drawn seeds, the samples are not.
        own_seeds = seeds[np.nonzero(drawn)[0]][:, :, None]
        picks = rows[rng.integers(len(rows), size=(len(own_seeds), 1, len(rows)))]
        samples = rng.integers(deviations.shape[2], size=np.broadcast_shapes(own_seeds.shape, picks.shape))
        found = values[own_seeds, picks] + deviations[own_seeds, picks, samples]
        sums[drawn], counts[drawn] = _finite_sums(found.mean(axis=1))
    return sums, counts


def _finite_sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums and numbers of the finite values along the last axis."""
    finite = np.isfinite(values)
    return np.where(finite, values, 0.0).sum(axis=-1), finite.sum(axis=-1)


def paired_difference_draws(
    own: np.ndarray,
    other: np.ndarray,
    families: np.ndarray,
    *,
    replicates: int,
    rng: np.random.Generator,
    statistic: Statistic = "family_median",
) -> np.ndarray:
    """Bootstrap of the difference of two conditions' aggregates: the same families and prompts drawn for both.

    Each condition's aggregate is taken by itself in every resample, as in the tables, so this is the uncertainty of
    the difference of the tabulated figures, not of a median of differences. Several models that answered the same
    prompts see the same resamples, too, so their draws can be combined.

    Args:
        own: float64[P] or [M, P] by model and prompt, NaN where undefined.
        other: The same of the other condition.
        families: str[P].
        replicates: Resamples, R.
        rng: The bootstrap's stream.
        statistic: As for ``bootstrap_families``.

    Returns:
        float64[R] or [M, R]; NaN where a resample has a family without a finite value.
    """
    sides = np.stack([own, other])
    members = [np.flatnonzero(families == family) for family in dict.fromkeys(families.tolist())]
    chosen = rng.integers(len(members), size=(replicates, len(members)))
    sums = np.empty((*sides.shape[:-1], *chosen.shape))
    counts = np.empty_like(sums)
    for family, rows in enumerate(members):
        drawn = chosen == family
        picks = rows[rng.integers(len(rows), size=(int(drawn.sum()), len(rows)))]
        sums[..., drawn], counts[..., drawn] = _finite_sums(sides[..., picks])
    found = _combine(sums, counts, statistic)
    return found[0] - found[1]


def paired_mean_draws(own: np.ndarray, other: np.ndarray, *, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Bootstrap of the difference of two conditions' means over prompts: the same prompts drawn for both.

    Args:
        own: float64[P] or [M, P] by model and prompt, NaN where undefined, which leaves the prompt out of that mean.
        other: The same of the other condition.
        replicates: Resamples, R.
        rng: The bootstrap's stream.

    Returns:
        float64[R] or [M, R].
    """
    size = own.shape[-1]
    weights = rng.multinomial(size, np.full(size, 1 / size), size=replicates).T
    finite = [np.isfinite(side) for side in (own, other)]
    with np.errstate(invalid="ignore"):
        means = [
            np.where(defined, side, 0.0) @ weights / (defined @ weights)
            for side, defined in zip((own, other), finite, strict=True)
        ]
    return means[0] - means[1]


def percentile_interval(draws: np.ndarray) -> tuple[float, float]:
    """95% percentile interval of the finite draws; NaN where fewer than half are finite."""
    finite = draws[np.isfinite(draws)]
    if not len(draws) or len(finite) < len(draws) / 2:
        return math.nan, math.nan
    low, high = np.percentile(finite, [2.5, 97.5])
    return float(low), float(high)


def wilson_interval(successes: float, trials: float) -> tuple[float, float]:
    """95% Wilson score interval of a proportion (Wilson 1927); NaN without trials.

    Numbers need not be whole: an effective sample size is not (``clustered_wilson_interval``).
    """
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

    Wilson's interval at an effective sample size (Korn and Graubard 1998): the number of trials over the design
    effect, which is the variance between clusters over the binomial one, at least 1, and for the few clusters that
    it is estimated from, times (z / t)^2 with Student's t at clusters - 1 degrees of freedom. A single cluster shows
    nothing of how rates vary between clusters: the interval is then Wilson's, for redrawing this cluster's answers.

    Args:
        successes: int[k] by cluster.
        trials: int[k].
    """
    total, clusters = trials.sum(), int((trials > 0).sum())
    if total == 0 or clusters == 1:
        return wilson_interval(float(successes.sum()), float(total))
    rate = successes.sum() / total
    between = clusters / (clusters - 1) * ((successes - rate * trials) ** 2).sum() / total**2
    binomial = rate * (1 - rate) / total
    effect = max(1.0, between / binomial) if binomial > 0 else 1.0
    shrink = (NORMAL_QUANTILE / stats.t.ppf(0.975, clusters - 1)) ** 2 / effect
    return wilson_interval(float(successes.sum() * shrink), float(total * shrink))


def newcombe_interval(successes: tuple[int, int], trials: tuple[int, int]) -> tuple[float, float]:
    """95% interval of a difference of rates, first - second, of independent samples.

    From Wilson's interval of each (Newcombe 1998, method 10); NaN where one has no trials.
    """
    if 0 in trials:
        return math.nan, math.nan
    first, second = (k / n for k, n in zip(successes, trials, strict=True))
    (low_1, high_1), (low_2, high_2) = (wilson_interval(k, n) for k, n in zip(successes, trials, strict=True))
    difference = first - second
    low = difference - math.hypot(first - low_1, high_2 - second)
    return low, difference + math.hypot(high_1 - first, second - low_2)
