"""One test over all models, in place of counting in how many of them a test says something.

Models are the independent units of a claim about models in general: the bootstrap draws them with replacement, and
with them families and prompts, which are the same for all models of a resample (crossed, Owen 2007). Models of one
maker share data and code, so they are less independent than this takes them to be.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pipeline.core.statistics.intervals import percentile_interval


@dataclass(frozen=True)
class OverModels:
    """What all models together say of a difference between two conditions.

    Attributes:
        difference: Mean over models, own - other.
        ci_low: Lower end of its 95% interval.
        ci_high: Upper end.
        models: Models with a defined difference.
        lower: Models whose difference is below 0.
        higher: Models whose difference is above 0.
        p: Two-sided sign test of the models' differences; a difference of 0 is left out.
    """

    difference: float
    ci_low: float
    ci_high: float
    models: int
    lower: int
    higher: int
    p: float


def over_models(differences: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> OverModels | None:
    """Bootstrap and sign test over models.

    Args:
        differences: float64[M], each model's own - other; NaN where undefined.
        draws: float64[M, R], the same on resamples of families and prompts, resample r the same for all models.
        rng: The stream that draws models.

    Returns:
        None with fewer than two defined differences: from one model nothing follows for others.
    """
    defined = np.isfinite(differences)
    differences, draws = differences[defined], draws[defined]
    size, replicates = draws.shape
    if size < 2:
        return None
    chosen = rng.integers(size, size=(replicates, size))
    means = draws.T[np.arange(replicates)[:, None], chosen].mean(axis=1)
    low, high = percentile_interval(means)
    lower, higher = int((differences < 0).sum()), int((differences > 0).sum())
    p = float(stats.binomtest(lower, lower + higher).pvalue) if lower + higher else math.nan
    return OverModels(float(differences.mean()), low, high, size, lower, higher, p)
