"""Which conditions of a model are tested against which, corrections for several tests, and what they say; differences
are own - other."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

SSOT_PAIRS = (("ssot", "base"), ("ssot", "soft"))
"""Tests of String Seed of Thought: the condition tested, and the condition that it is tested against."""
TESTED = ("pit_wasserstein_1_all_answers", "logit_kl_nats", "logit_kl_rounded_law_nats")
"""Per-prompt metrics that are tested, all better where lower; the first is the primary one, as it is always defined."""
QUESTION = ("model", "metric", "condition", "against")
"""What names a question. Holm's correction is over its parts (splits, tasks, slices), on every axis."""
HETEROGENEITY_PERMUTATIONS = 1_999
Direction = Literal["lower", "higher"]
Verdict = Literal["better", "worse", "no relevant difference", "cannot tell", "undefined"]


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's (1979) step-down adjusted p-values, float64[n]; NaN counts as one never rejected, and stays NaN."""
    p_values = np.asarray(p_values, dtype=np.float64)
    filled = np.where(np.isnan(p_values), 1.0, p_values)
    order = np.argsort(filled, kind="stable")
    steps = filled[order] * np.arange(len(filled), 0, -1)
    adjusted = np.empty_like(filled)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return np.where(np.isnan(p_values), np.nan, adjusted)


def heterogeneity(changes: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Whether the mean changes of models differ by more than chance: their standard deviation beyond it (DerSimonian
    and Laird), and the p of Cochran's Q. ``changes``: float64[models, items], each model on the same items.

    Q is the sum of squared deviations of the models' means over their mean squared standard error, and its p from
    permuting the changes of every item among the models: they may be, where all models change alike.
    """
    models, items = changes.shape

    def between_and_within(values: np.ndarray) -> tuple[float, float]:
        return values.mean(axis=1).var(ddof=1), values.var(axis=1, ddof=1).mean() / items

    def q(between: float, within: float) -> float:
        return (models - 1) * between / within if within else 0.0

    observed = between_and_within(changes)
    permuted = (q(*between_and_within(rng.permuted(changes, axis=0))) for _ in range(HETEROGENEITY_PERMUTATIONS))
    exceeding = sum(other >= q(*observed) - 1e-9 for other in permuted)
    return math.sqrt(max(observed[0] - observed[1], 0.0)), (exceeding + 1) / (HETEROGENEITY_PERMUTATIONS + 1)


def comparison_verdict(
    interval: tuple[float, float],
    p_adjusted: float,
    significance: float,
    margin: float = 0.0,
    floor_difference: float = 0.0,
    better: Direction = "lower",
) -> Verdict:
    """Better or worse where the test rejects and the whole interval lies beyond the margin, "no relevant difference"
    where it lies within. What perfect samplers of the two sizes would differ by makes either harder."""
    low, high = interval
    if not all(math.isfinite(number) for number in (low, high, p_adjusted)):
        return "undefined"
    allowance = abs(floor_difference) if math.isfinite(floor_difference) else 0.0
    beyond, within = margin + allowance, margin - allowance
    if p_adjusted <= significance and (high < -beyond or low > beyond):
        return "better" if (low > beyond) == (better == "higher") else "worse"
    return "no relevant difference" if -within < low and high < within else "cannot tell"


def method_pairs(conditions: Sequence[str]) -> list[tuple[str, str]]:
    """The condition tested and the one it is tested against: every method against base; soft against hard, as in the
    paper; every further method against soft."""
    methods = [name for name in conditions if name != "base"]
    further = [name for name in methods if name not in ("soft", "hard")]
    pairs = [(name, "base") for name in methods] + [("soft", "hard")] + [(name, "soft") for name in further]
    return [pair for pair in pairs if set(pair) <= set(conditions)]
