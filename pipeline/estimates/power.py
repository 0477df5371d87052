"""The smallest effects that an experiment can show, from how differences varied in a recorded one."""

import functools
import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import bisect
from scipy.stats import norm

from pipeline.artifacts.storage import read_table
from pipeline.axes.mcq.multiple_choice import LETTER_COUNTS, letter_variances
from pipeline.config.params import Params
from pipeline.core.prompts.structured import build_split
from pipeline.core.random_streams import random_stream
from pipeline.core.retention.tasks import ALL_COLUMNS, TASKS
from pipeline.core.statistics.intervals import NORMAL_QUANTILE
from pipeline.core.statistics.sign_flips import sign_patterns
from pipeline.estimates.prices import Prices
from pipeline.report.claims.declared import CLAIMS, Contrast
from pipeline.report.evaluations import Evaluations

POWER, WORLDS, MOST_PAIRS = 0.8, 1000, 50
TESTED_BY_PAIRS = ("structured", "open", "mcq", "retention")


@functools.cache
def smallest_shift(pairs: int) -> float:
    """The mean, in standard deviations, of so many normal differences that the test by signs at 5% finds in 80% of
    cases; NaN below six pairs, with which it finds nothing."""
    if pairs < 6:
        return math.nan
    if pairs > MOST_PAIRS:
        # Of many pairs the mean is as good as normal.
        return (NORMAL_QUANTILE + float(norm.ppf(POWER))) / math.sqrt(pairs)
    rng = random_stream(0, "power", pairs)
    worlds, signs = rng.standard_normal((WORLDS, pairs)), sign_patterns(pairs, rng).T

    def excess(shift: float) -> float:
        sums = np.abs((worlds + shift) @ signs)
        return ((sums >= sums[:, :1] - 1e-9).mean(axis=1) <= 0.05).mean() - POWER

    return bisect(excess, 0.0, 4.0, xtol=1e-3)


class Variances(NamedTuple):
    """Of differences: between pairs, and between the prompts within one."""

    between: float
    within: float

    def deviation(self, prompts: float) -> float:
        """Of the difference between pairs of so many prompts each."""
        return math.sqrt(self.between + self.within / prompts)


def pair_variances(recorded: Evaluations, contrast: Contrast, model: str) -> Variances:
    """Of families; of prompts or items, which are pairs themselves; of answers, for their positions. NaN where none are
    recorded."""
    axis, metric, names = contrast.axis, contrast.metric, (contrast.own, contrast.other)
    missing = Variances(math.nan, math.nan)
    if axis not in ("structured", "mcq"):
        own, other = (recorded.by_unit(axis, contrast.split, metric, model, name) for name in names)
        return missing if own is None or other is None else Variances(float(contrast.difference(own, other).var()), 0.0)
    paths = [recorded.path(axis, model, name, "per_prompt.parquet") for name in names]
    if None in paths:
        return missing
    if axis == "mcq":
        letters = [read_table(path, LETTER_COUNTS)[LETTER_COUNTS].sum().to_numpy() for path in paths]
        return Variances(float(letter_variances(np.array(letters)).sum()), 0.0)
    tables = [read_table(path, ["prompt_id", "family", "split"]) for path in paths]
    if any(metric not in table for table in tables):
        return missing
    own, other = (table[table["split"] == contrast.split].set_index("prompt_id") for table in tables)
    difference = contrast.difference(own[metric], other[metric])
    groups = difference.dropna().groupby(own["family"])
    means, within = groups.mean(), np.nan_to_num(groups.var().mean())
    return Variances(max(means.var() - within / groups.size().mean(), 0.0), within)


def power_table(recorded: Evaluations, params: Params, prices: Prices) -> pd.DataFrame:
    """By contrast of the claims, the smallest effects, margin included: of one model, with twice the prompts, items or
    answers, and of the mean over all models where these differ by chance alone."""
    model, rows = recorded.metrics["model"].iloc[0], []

    @functools.cache
    def sizes(axis: str, split: str) -> tuple[int, float]:
        """Pairs of this experiment, and prompts in each; answers of the one request for positions."""
        if axis == "mcq":
            return params.generate.mcq.num_samples, 1.0
        if axis == "retention":
            return TASKS[ALL_COLUMNS[split][0]].items, 1.0
        if axis != "structured":
            return len(prices.texts(axis)), 1.0
        chosen = getattr(params.prompts, f"{split}_selection")
        asked = build_split(split, selection=chosen, families=params.prompts.families)
        families = len({prompt.family for prompt in asked})
        return families, len(asked) / max(families, 1) or 1.0

    for contrast in (each for claim in CLAIMS for each in claim.contrasts if each.axis in TESTED_BY_PAIRS):
        variances = pair_variances(recorded, contrast, model)
        if math.isnan(variances.between) or contrast.beyond:
            continue
        pairs, prompts = sizes(contrast.axis, contrast.split)
        one = variances.deviation(prompts)
        # Twice the prompts are more in each family, or more pairs.
        more = (2, 1) if contrast.axis == "structured" else (1, 2)
        shifts = [one * smallest_shift(pairs), variances.deviation(more[0] * prompts) * smallest_shift(more[1] * pairs)]
        shifts.append(one / math.sqrt(max(pairs, 1)) * smallest_shift(len(params.models)))
        rows.append((contrast.metric, contrast.split, contrast.name, pairs, *(contrast.margin + s for s in shifts)))
    columns = ["metric", "split", "contrast", "pairs", "one_model", "twice_the_prompts", "mean_of_models"]
    return pd.DataFrame(rows, columns=columns).dropna(subset="one_model").drop_duplicates(columns[:3])
