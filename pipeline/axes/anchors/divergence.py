"""How far an adapted model has moved from its base checkpoint on held-out instructions, in nats per token."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.paloma.perplexity import resampled_sums
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval

METRIC_NAMES = {"forward": "anchor_kl_nats", "reverse": "anchor_reverse_kl_nats"}
"""By direction: of the base checkpoint from the model on the base's replies, and the other way round on its own."""


def per_token(divergences: np.ndarray, tokens: np.ndarray, *, replicates: int, rng: np.random.Generator) -> Estimate:
    """Divergence per token, a ratio of sums, with a 95% bootstrap interval over instructions.

    By the chain rule a reply's sum is an unbiased estimate of KL between the laws of replies up to where they are cut.

    Args:
        divergences: float64[P], nats summed over the replies to each instruction.
        tokens: int64[P], the tokens that they are summed over.
        replicates: Resamples.
        rng: The bootstrap's stream.
    """
    size = len(tokens)
    if not tokens.sum():
        return Estimate(math.nan, 0, undefined=size)
    value = float(divergences.sum() / tokens.sum())
    if size < 2:
        return Estimate(value, size)
    nats, read = resampled_sums(np.stack([divergences, tokens], axis=1), replicates, rng).T
    return Estimate(value, size, *percentile_interval(nats / read))


def prompt_sums(scores: pd.DataFrame, categories: Mapping[str, str]) -> pd.DataFrame:
    """Sums over the replies to each instruction.

    Args:
        scores: Columns prompt_id, direction, num_tokens and divergence_nats, one row per reply and direction.
        categories: Kind of each instruction by its id.

    Returns:
        Columns prompt_id, kind, direction, num_tokens, divergence_nats, in the instructions' order.
    """
    sums = scores.groupby(["prompt_id", "direction"], sort=False)[["num_tokens", "divergence_nats"]].sum().reset_index()
    sums.insert(1, "kind", sums["prompt_id"].map(categories))
    place = {name: index for index, name in enumerate(categories)}
    return sums.sort_values("prompt_id", key=lambda column: column.map(place), kind="stable", ignore_index=True)


def metric_rows(sums: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int) -> list[dict[str, Any]]:
    """Rows of metrics.csv: both directions over all instructions (split "all") and over each kind (split KIND).

    Args:
        sums: From ``prompt_sums``.
        seed: Root seed.
        names: Names the bootstrap's streams.
        replicates: Resamples.
    """
    rows = []
    for split in ("all", *dict.fromkeys(sums["kind"])):
        for direction, metric in METRIC_NAMES.items():
            chosen = sums[(sums["direction"] == direction) & ((sums["kind"] == split) | (split == "all"))]
            rng = random_stream(seed, "bootstrap", *names, split, metric)
            values = chosen["divergence_nats"].to_numpy(), chosen["num_tokens"].to_numpy()
            rows.append({"split": split} | metric_row(metric, per_token(*values, replicates=replicates, rng=rng)))
    return rows
