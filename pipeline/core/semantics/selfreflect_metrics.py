"""From the distances of a judge's laws to reported numbers (axis "selfreflect")."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.semantics.question_means import paired_rows
from pipeline.core.semantics.selfreflect import SUMMARIES, WRITTEN

MEANS = {summary: f"selfreflect_{summary}" for summary in SUMMARIES} | {"gain": "selfreflect_gain"}
DIFFERENCES = (*WRITTEN, "gain")
"""Those whose change from base is reported as well, paired by question."""


def question_table(questions: Sequence[str], distances: pd.DataFrame) -> pd.DataFrame:
    """The mean distance of each question under each summary.

    Args:
        questions: Prompt ids, in order.
        distances: Columns prompt_id, summary and distance: one row for each summary and hidden word.

    Returns:
        prompt_id, SUMMARIES (NaN for a question without a hidden word), gain: direct less sampled, what the model's
        summary gains by its answers, and words: hidden words under each summary.
    """
    means = distances.groupby(["prompt_id", "summary"])["distance"].mean()
    words = distances[distances["summary"] == SUMMARIES[-1]].groupby("prompt_id").size()
    rows = [
        {
            "prompt_id": name,
            **{summary: float(means.get((name, summary), math.nan)) for summary in SUMMARIES},
            "words": int(words.get(name, 0)),
        }
        for name in questions
    ]
    table = pd.DataFrame(rows)
    return table.assign(gain=table["direct"] - table["sampled"])


def metric_rows(
    per_prompt: pd.DataFrame, base: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, and paired changes from base.

    The floor of what the model writes is what the counts in words score on the same questions.

    Args:
        per_prompt: ``question_table``.
        base: That of the base checkpoint on the same questions, in the same order.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    perfect = per_prompt["perfect"].to_numpy()
    floors = dict.fromkeys(WRITTEN, float(np.nanmean(perfect)) if np.isfinite(perfect).any() else math.nan)
    return paired_rows(per_prompt, base, MEANS, DIFFERENCES, floors, seed=seed, names=names, replicates=replicates)
