"""Paired tests of two conditions of one model that answered the same structured prompts; differences are own - other.
Families are the pairs of the test: prompt by prompt would reject far too often where they differ."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import at_places, by_family, means_within, over_families
from pipeline.core.statistics.sign_flips import sign_flip_effect

SSOT_PAIRS = (("ssot", "base"), ("ssot", "soft"))
"""Tests of String Seed of Thought: the condition tested, and the condition that it is tested against."""
TESTED = ("pit_wasserstein_1_all_answers", "logit_kl_nats", "logit_kl_rounded_law_nats")
"""Per-prompt metrics that are tested, all better where lower; the first is the primary one, as it is always defined."""
QUESTION = ("model", "metric", "condition", "against")
"""What names a question. Holm's correction is over its parts (splits, tasks, slices), on every axis."""
ALL_PARTS = "all"
"""Split of all parts together: a question by itself, which is not corrected."""
COMPARISON_COLUMNS = (
    *("model", "split", "metric", "condition", "against", "families", "prompts", "undefined"),
    *("value", "value_against", "difference", "ci_low", "ci_high", "margin", "floor_difference"),
    *("p", "p_adjusted", "verdict"),
)
TEST_COLUMNS = (
    *("split", "metric", "difference", "ci_low", "ci_high", "margin"),
    *("p_difference", "p_difference_adjusted", "verdict"),
)
"""Of the table of an evaluation's own tests against base."""
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


def compare(
    own: np.ndarray, other: np.ndarray, families: np.ndarray, seed: int, names: tuple[str, ...]
) -> dict[str, float]:
    """Compare two conditions, float64[P] each with NaN where undefined, on one metric of the same prompts: means over
    families of means over their prompts, and the sign-flip test of the families' differences. Some of
    COMPARISON_COLUMNS, all but the sizes NaN where a family has no pair."""
    own, other = (np.asarray(side, dtype=np.float64) for side in (own, other))
    defined = np.isfinite(own - other)
    sizes = {"families": len(set(families.tolist())), "prompts": int(defined.sum()), "undefined": int((~defined).sum())}
    value, against = (
        over_families(np.where(defined, side, math.nan), families, "family_mean") for side in (own, other)
    )
    differences = means_within(at_places(own - other, by_family(families)))
    if not np.isfinite(differences).all():
        differences = differences[:0]
    effect = sign_flip_effect(differences, random_stream(seed, "condition tests", *names))
    figures = {"value": value, "value_against": against, "difference": effect.estimate}
    return {**sizes, **figures, "ci_low": effect.ci_low, "ci_high": effect.ci_high, "p": effect.p}


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


def adjusted_by_question(table: pd.DataFrame, column: str = "p") -> pd.Series:
    """p-values adjusted by Holm over the parts (splits, tasks, slices) of each question: those of QUESTION's columns
    that the table has. All parts together are a question by themselves."""
    keys = [table[name] for name in QUESTION if name in table]
    groups = table.groupby([*keys, table["split"] == ALL_PARTS], sort=False)[column]
    return groups.transform(lambda p: holm(p.to_numpy(np.float64)))


def method_pairs(conditions: Sequence[str]) -> list[tuple[str, str]]:
    """The condition tested and the one it is tested against: every method against base; soft against hard, as in the
    paper; every further method against soft."""
    methods = [name for name in conditions if name != "base"]
    further = [name for name in methods if name not in ("soft", "hard")]
    pairs = [(name, "base") for name in methods] + [("soft", "hard")] + [(name, "soft") for name in further]
    return [pair for pair in pairs if set(pair) <= set(conditions)]


def compare_conditions(
    per_prompt: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    floors: Mapping[tuple[str, str, str, str], float],
    margins: Mapping[str, float],
    seed: int,
    significance: float,
    tested: Sequence[str] = TESTED,
) -> pd.DataFrame:
    """Pairs of conditions of all models on all tested metrics: COMPARISON_COLUMNS, by split, metric, model and pair.
    ``floors`` has what a perfect sampler scores, by (model, condition, split, metric); ``margins`` the smallest
    difference that matters. Raises ValueError where two conditions answered different prompts."""
    rows = []
    for (split, model), members in per_prompt.groupby(["split", "model"], sort=False):
        conditions = {name: rows.set_index("prompt_id") for name, rows in members.groupby("condition", sort=False)}
        for own, other in pairs:
            if own not in conditions or other not in conditions:
                continue
            first, second = conditions[own], conditions[other]
            if set(first.index) != set(second.index):
                raise ValueError(f"{model}: {own} and {other} answered different prompts of {split}")
            second, families = second.loc[first.index], first["family"].to_numpy()
            for metric in tested:
                if metric not in first or first[metric].isna().all() or second[metric].isna().all():
                    continue
                values = (side[metric].to_numpy(np.float64) for side in (first, second))
                names = (str(model), str(split), own, other, metric)
                own_floor, other_floor = (floors.get((model, c, split, metric), math.nan) for c in (own, other))
                labels = {"model": model, "split": split, "metric": metric, "condition": own, "against": other}
                compared = compare(*values, families, seed, names)
                bars = {"margin": margins[metric], "floor_difference": own_floor - other_floor}
                rows.append({**labels, **compared, **bars})
    table = pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS))
    if table.empty:
        return table
    table["p_adjusted"] = adjusted_by_question(table)
    table["verdict"] = [
        comparison_verdict((row.ci_low, row.ci_high), row.p_adjusted, significance, row.margin, row.floor_difference)
        for row in table.itertuples()
    ]
    orders = {name: list(dict.fromkeys(per_prompt[name])) for name in ("split", "model")} | {"metric": list(tested)}
    return table.sort_values(
        ["split", "metric", "model"], key=lambda column: column.map(orders[column.name].index), kind="stable"
    ).reset_index(drop=True)
