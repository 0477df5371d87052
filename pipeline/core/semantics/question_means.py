"""Means over questions for the metrics table, and paired changes from base."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.core.language.novelty_aggregate import split_rows


def paired_rows(
    per_prompt: pd.DataFrame,
    base: pd.DataFrame,
    metrics: Mapping[str, str],
    differences: Sequence[str],
    floors: Mapping[str, float],
    *,
    seed: int,
    names: Sequence[str],
    replicates: int,
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, then those of paired changes from base.

    Args:
        per_prompt: A row for each question: prompt_id and the columns that ``metrics`` has as keys.
        base: Those of the base checkpoint on the same questions, in the same order.
        metrics: Reported metric by column.
        differences: Columns whose change from base is reported as well, as METRIC_difference.
        floors: Floor by column, of those that have one.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    changes = per_prompt[["prompt_id"]].assign(
        **{name: per_prompt[name].to_numpy() - base[name].to_numpy() for name in differences}
    )
    reported = {metrics[column]: floor for column, floor in floors.items()}
    rows = []
    for table, named in (
        (per_prompt, metrics),
        (changes, {name: f"{metrics[name]}_difference" for name in differences}),
    ):
        rows += split_rows(table, named, seed=seed, stream=tuple(names), bootstrap_replicates=replicates)
    return [{**row, "floor": reported.get(row["metric"], row["floor"])} for row in rows]
