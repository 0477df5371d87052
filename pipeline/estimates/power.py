"""The smallest effects that an experiment can show, from how differences varied in a recorded one."""

import functools
import math

import numpy as np
import pandas as pd
from scipy.optimize import bisect

from pipeline.artifacts.storage import read_table
from pipeline.config.params import Params
from pipeline.core.prompts.structured import build_split
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.sign_flips import sign_patterns
from pipeline.estimates.prices import Prices
from pipeline.report.claims.declared import CLAIMS, Contrast
from pipeline.report.evaluations import Evaluations

POWER, WORLDS, MOST_PAIRS = 0.8, 1000, 100
PAIRED_BY_PROMPT = ("structured", "open")


@functools.cache
def smallest_shift(pairs: int) -> float:
    """The mean, in standard deviations, of so many normal differences that the test by signs at 5% finds in 80% of
    cases; NaN below six pairs, with which it finds nothing."""
    if pairs < 6:
        return math.nan
    if pairs > MOST_PAIRS:
        return smallest_shift(MOST_PAIRS) * math.sqrt(MOST_PAIRS / pairs)
    rng = random_stream(0, "power", pairs)
    worlds, signs = rng.standard_normal((WORLDS, pairs)), sign_patterns(pairs, rng).T

    def excess(shift: float) -> float:
        sums = np.abs((worlds + shift) @ signs)
        return ((sums >= sums[:, :1] - 1e-9).mean(axis=1) <= 0.05).mean() - POWER

    return bisect(excess, 0.0, 4.0, xtol=1e-3)


def pair_deviation(recorded: Evaluations, contrast: Contrast, model: str, prompts: float) -> float:
    """Of the difference between pairs: families with so many prompts each, or prompts; NaN where none is recorded."""
    names, metric = (contrast.own, contrast.other), contrast.metric
    if any(recorded.by_unit(contrast.axis, contrast.split, metric, model, name) is None for name in names):
        return math.nan
    unit = "family" if contrast.axis == "structured" else "prompt_id"
    columns = list(dict.fromkeys(["prompt_id", unit, "split", metric]))
    paths = [recorded.path(contrast.axis, model, name, "per_prompt.parquet") for name in names]
    own, other = (read_table(path, columns).set_index("prompt_id", drop=False) for path in paths)
    own = own[own["split"] == contrast.split]
    difference = np.log10(own[metric] / other[metric]) if contrast.log_ratio else own[metric] - other[metric]
    groups = difference.dropna().groupby(own[unit])
    means, within = groups.mean(), np.nan_to_num(groups.var().mean())
    between = max(means.var() - within / groups.size().mean(), 0.0)
    return math.sqrt(between + within / prompts)


def power_table(recorded: Evaluations, params: Params, prices: Prices) -> pd.DataFrame:
    """By contrast of the claims on numbers and texts, the smallest effects, margin included: of one model, with twice
    the prompts, and of the mean over all models where these differ by chance alone."""
    model, rows = recorded.metrics["model"].iloc[0], []
    for contrast in (each for claim in CLAIMS for each in claim.contrasts if each.axis in PAIRED_BY_PROMPT):
        texts = prices.texts(contrast.axis)
        pairs, prompts, more = len(texts), 1.0, 2
        if contrast.axis == "structured":
            chosen = getattr(params.prompts, f"{contrast.split}_selection")
            asked = build_split(contrast.split, selection=chosen, families=params.prompts.families)
            pairs, more = len({prompt.family for prompt in asked}), 1
            prompts = len(asked) / max(pairs, 1) or 1.0
        # Twice the prompts are more pairs, or more in each.
        one, twice = (pair_deviation(recorded, contrast, model, prompts * times) for times in (1, 3 - more))
        shifts = [one * smallest_shift(pairs), twice * smallest_shift(more * pairs)]
        shifts.append(one / math.sqrt(max(pairs, 1)) * smallest_shift(len(params.models)))
        rows.append((contrast.metric, contrast.split, contrast.name, pairs, *(contrast.margin + s for s in shifts)))
    columns = ["metric", "split", "contrast", "pairs", "one_model", "twice_the_prompts", "mean_of_models"]
    return pd.DataFrame(rows, columns=columns).dropna(subset="one_model").drop_duplicates(columns[:3])
