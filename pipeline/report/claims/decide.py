"""What evaluations of some models say of a claim: one statistic a row, its own p and interval, and the verdict."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import holm
from pipeline.core.statistics.sign_flips import Effect, sign_flip_effect
from pipeline.report.claims.declared import Contrast

LEAST_MODELS = 6
"""Below it sign flips of models cannot reach .05."""


class Evidence(NamedTuple):
    """The effect in one model, by what its intervals were found, and the means of the two conditions."""

    effect: Effect
    method: str
    own: float = math.nan
    other: float = math.nan


def evidence(
    differences: np.ndarray, names: Sequence[object], method: str, means: tuple[float, float] = (math.nan, math.nan)
) -> Evidence:
    """Of differences of families, prompts, items or models; ``names`` (the seed first) name the stream."""
    rng = random_stream(names[0], "claims", *names[1:])
    return Evidence(sign_flip_effect(differences, rng), f"sign flips of {method}", *means)


def side(effect: Effect, contrast: Contrast) -> int:
    """1 where the interval lies beyond the margin on the claim's side, -1 on the other, 0 else."""
    if not math.isfinite(effect.ci_low):
        return 0
    low, high = (effect.ci_low, effect.ci_high) if contrast.better == "higher" else (-effect.ci_high, -effect.ci_low)
    if contrast.bounds is not None:
        inside = contrast.bounds[0] <= effect.ci_low and effect.ci_high <= contrast.bounds[1]
        outside = effect.ci_high < contrast.bounds[0] or contrast.bounds[1] < effect.ci_low
        return int(inside) - int(outside)
    return int(low > contrast.margin) - int(high < -contrast.margin)


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """95% interval of a share; NaN without trials."""
    if trials == 0:
        return math.nan, math.nan
    interval = stats.binomtest(successes, trials).proportion_ci(method="exact")
    return float(interval.low), float(interval.high)


def _verdict(contrast: Contrast, found: Evidence, sides: Sequence[int], share: tuple[float, float]) -> str:
    models = len(sides)
    if 1 < models < LEAST_MODELS:
        return f"undecidable at n = {models}"
    if contrast.quantifier == "most" and models > 1:
        return "holds" if share[0] > 0.5 else "contradicted" if share[1] < 0.5 else "open"
    within = -contrast.margin <= found.effect.low_90 and found.effect.high_90 <= contrast.margin
    decided = side(found.effect, contrast)
    if contrast.quantifier == "kept":
        return "holds" if within else "contradicted" if decided else "open"
    if decided:
        return "holds" if decided > 0 else "contradicted"
    return "kept" if within and contrast.bounds is None else "open"


def decide(contrast: Contrast, by_model: Mapping[str, Evidence], seed: int) -> dict[str, Any]:
    """The numbers of a contrast over models, or of the only one; ``verdict`` is "not run" without a model.

    One model's row is its own test, of families, prompts or items. Six or more are the pairs of a test themselves; from
    two to five there is a mean without a verdict.
    """
    by_model = {name: own for name, own in by_model.items() if math.isfinite(own.effect.estimate)}
    sides = [side(own.effect, contrast) for own in by_model.values()]
    counts = {"holds": sides.count(1), "against": sides.count(-1), "open": sides.count(0)}
    share = clopper_pearson(counts["holds"], len(sides))
    estimates = np.array([own.effect.estimate for own in by_model.values()])
    names = (seed, contrast.metric, contrast.split, contrast.own, contrast.other)
    found = next(iter(by_model.values())) if len(by_model) == 1 else evidence(estimates, names, "models")
    verdict = _verdict(contrast, found, sides, share) if sides else "not run"
    effect = found.effect
    return {
        "n_models": len(sides),
        "own": float(np.mean([own.own for own in by_model.values()])) if sides else math.nan,
        "other": float(np.mean([own.other for own in by_model.values()])) if sides else math.nan,
        **{"estimate": effect.estimate, "ci_low": effect.ci_low, "ci_high": effect.ci_high},
        **counts,
        **{"share_low": share[0], "share_high": share[1]},
        **{"p": effect.p, "p_method": found.method if sides else "", "verdict": verdict},
    }


def some_models(rows: Sequence[dict[str, Any]], by_row: Sequence[Mapping[str, Evidence]], contrast: Contrast) -> None:
    """Decide rows of a claim about some model: at least one whose p, adjusted by Holm over models and contrasts, is at
    most .05 on the claim's side."""
    effects = [own.effect for by_model in by_row for own in by_model.values()]
    if not effects:
        return
    adjusted = holm(np.array([effect.p for effect in effects]))
    found = any(p <= 0.05 and side(effect, contrast) > 0 for p, effect in zip(adjusted, effects, strict=True))
    for row in rows:
        row["verdict"] = "holds" if found else "open"


def together(rows: Sequence[dict[str, Any]], sides: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """The row of a claim whose contrasts must all hold: p is the largest; ``holds`` counts models in which all do."""
    verdicts = [row["verdict"] for row in rows]
    models = set.intersection(*(set(own) for own in sides)) if sides else set()
    holding = sum(all(own[model] > 0 for own in sides) for model in models)
    against = sum(any(own[model] < 0 for own in sides) for model in models)
    share = clopper_pearson(holding, len(models))
    first = next((v for v in ("contradicted", "not run", *verdicts) if v in verdicts and v != "holds"), "holds")
    verdict = "open" if first == "kept" else first
    unknown = dict.fromkeys(("own", "other", "estimate", "ci_low", "ci_high"), math.nan)
    counts = {"holds": holding, "against": against, "open": len(models) - holding - against}
    decided = {"p": float(np.max([row["p"] for row in rows])), "p_method": "largest", "verdict": verdict}
    return {"n_models": len(models), **unknown, **counts, "share_low": share[0], "share_high": share[1], **decided}
