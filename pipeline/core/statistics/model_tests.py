"""One test over all models, in place of counting in how many of them a test says something."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pipeline.core.statistics.intervals import percentile_interval


@dataclass(frozen=True)
class OverModels:
    """Mean over models of own - other with its 95% interval, how many models are defined, below and above 0, and the
    two-sided sign test's p; a difference of 0 is left out of it."""

    difference: float
    ci_low: float
    ci_high: float
    models: int
    lower: int
    higher: int
    p: float


def over_models(differences: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> OverModels | None:
    """Bootstrap and sign test over models, which are taken as independent; None with fewer than two.

    ``differences`` are float64[M], NaN where undefined; ``draws`` float64[M, R], the same on resamples of families and
    prompts, resample r the same for all models (crossed, Owen 2007).
    """
    defined = np.isfinite(differences)
    differences, draws = differences[defined], draws[defined]
    size, replicates = draws.shape
    if size < 2:
        return None
    chosen = rng.integers(size, size=(replicates, size))
    means = draws.T[np.arange(replicates)[:, None], chosen].mean(axis=1)
    lower, higher = int((differences < 0).sum()), int((differences > 0).sum())
    p = float(stats.binomtest(lower, lower + higher).pvalue) if lower + higher else math.nan
    return OverModels(float(differences.mean()), *percentile_interval(means), size, lower, higher, p)
