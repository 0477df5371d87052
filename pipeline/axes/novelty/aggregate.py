"""From NoveltyBench's per-prompt results to reported numbers (arXiv:2605.11845, Table 10)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import Estimate, bootstrap_families, metric_row

CALL_METRICS = {
    "novelty_pairs": ("classifier", "pairs"),
    "novelty_pairs_compared": ("classifier", "compared"),
    "novelty_pairs_classified": ("classifier", "classified"),
    "novelty_classifier_calls": ("classifier", "classified_unique"),
    "novelty_responses": ("reward", "responses"),
    "novelty_representatives": ("reward", "representatives"),
    "novelty_reward_calls": ("reward", "representatives_unique"),
}
"""Metric name to evaluator and count. Calls are those of a run with an empty cache."""


def metric_names(classifier: str, reward: str) -> dict[str, str]:
    """Reported names of the columns "distinct" and "utility": the paper's for the benchmark's own evaluators only.

    Args:
        classifier: Kind of the pair classifier, "deberta" or "lexical".
        reward: Kind of the reward model, "skywork" or "likelihood".
    """
    paper_classes = classifier == "deberta"
    return {
        "distinct": "distinct" if paper_classes else "distinct_lexical",
        "utility": "utility" if paper_classes and reward == "skywork" else "utility_stand_in",
    }


def split_rows(
    per_prompt: pd.DataFrame,
    names: Mapping[str, str],
    *,
    seed: int,
    stream: tuple[str, ...],
    bootstrap_replicates: int,
) -> list[dict[str, Any]]:
    """Means over the prompts of one split, with 95% intervals for redrawing the prompts.

    Args:
        per_prompt: One row per prompt: prompt_id and the columns that ``names`` has as keys.
        names: Reported metric by column.
        seed: Root seed of the bootstrap; ``stream`` and the metric complete its stream's name.
        stream: Axis, model, condition, split.
        bootstrap_replicates: Resamples per interval.
    """
    rows = []
    for column, metric in names.items():
        values = per_prompt[column].to_numpy(dtype=np.float64)
        finite = np.isfinite(values)
        rng = random_stream(seed, "bootstrap", *stream, metric)
        low, high = bootstrap_families(
            values, per_prompt["prompt_id"].to_numpy(), "mean", replicates=bootstrap_replicates, rng=rng
        )
        value = float(values[finite].mean()) if finite.any() else math.nan
        rows.append(metric_row(metric, Estimate(value, int(finite.sum()), low, high, int((~finite).sum()))))
    return rows


def call_rows(classifier: Mapping[str, int], reward: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows of the numbers of comparisons and evaluator calls behind all splits, and of the calls saved.

    Saved is the share of all pairs of responses to a prompt (``novelty_classifier_calls_saved``), or
    of all responses (``novelty_reward_calls_saved``), that needs no call even with an empty cache.

    Args:
        classifier: Counts of the partition (``PartitionCounts``).
        reward: Counts of the rewards: responses, representatives and representatives_unique.
    """
    counts = {"classifier": classifier, "reward": reward}
    values = {metric: float(counts[source][key]) for metric, (source, key) in CALL_METRICS.items()}
    for evaluator, total in (("classifier", "novelty_pairs"), ("reward", "novelty_responses")):
        calls = values[f"novelty_{evaluator}_calls"]
        values[f"novelty_{evaluator}_calls_saved"] = 1 - calls / values[total] if values[total] else math.nan
    return [metric_row(metric, Estimate(value, 1)) for metric, value in values.items()]
