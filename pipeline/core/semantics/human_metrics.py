"""From answers to questions to reported numbers: agreement with people (axis "human")."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.semantics.agreement import agreement, people_against_people
from pipeline.axes.questions.classes import within_people
from pipeline.axes.questions.question import Question, people_counts
from pipeline.core.semantics.question_means import paired_rows
from pipeline.core.statistics.intervals import Estimate, metric_row

MEANS = (
    *("human_tv", "human_js_bits", "human_kl_nats", "human_recall", "same_top_answer", "human_within_band"),
    *("people_entropy_nats", "model_entropy_nats", "entropy_gap_nats"),
)
FLOORS = ("human_tv", "human_js_bits", "human_kl_nats")
"""Those with a null: people against people."""
DIFFERENCES = ("human_tv", "human_js_bits", "human_recall")
"""Those whose change from base is reported as well, paired by question."""
JUDGE_PAIRS, JUDGE_CALLS, JUDGE_SAVED = "judge_pairs", "judge_calls", "judge_calls_saved"
EXPECTED_WITHIN = 0.95
"""Share of questions on which a model that answers as people do is within the band."""


def question_row(question: Question, counts: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """The result of one question that people were asked.

    Args:
        question: What was asked.
        counts: Answers by class, as ``classify`` finds them; at least one.
        rng: Of the samples of people.

    Returns:
        prompt_id, category, num_answers, num_people, num_classes, what ``agreement`` gives, and for each of FLOORS the
        mean NAME_null and the 95% quantile NAME_null_95 of people against people; human_within_band, 1 where the
        total variation is at most that quantile.
    """
    people, size = people_counts(question), sum(counts.values())
    found = agreement(people, within_people(dict(counts), question))
    band = people_against_people(np.array(list(people.values())), size, rng)
    nulls = {f"{name}_null": float(draws.mean()) for name, draws in band.items()}
    quantiles = {f"{name}_null_95": float(np.quantile(draws, 0.95)) for name, draws in band.items()}
    return {
        "prompt_id": question.prompt_id,
        "category": question.category,
        "num_answers": size,
        "num_people": question.num_people,
        "num_classes": len(question.human),
        **found,
        **nulls,
        **quantiles,
        "human_within_band": float(found["human_tv"] <= quantiles["human_tv_null_95"]),
    }


def metric_rows(
    per_prompt: pd.DataFrame, base: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """Means over questions with 95% bootstrap intervals over questions, and paired changes from base.

    Args:
        per_prompt: Rows of ``question_row``.
        base: Those of the base checkpoint on the same questions, in the same order.
        seed: Root seed of the bootstrap; ``names`` complete its streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval.
    """
    floors = {name: float(per_prompt[f"{name}_null"].mean()) for name in FLOORS}
    floors["human_within_band"] = EXPECTED_WITHIN
    own = {name: name for name in MEANS}
    return paired_rows(per_prompt, base, own, DIFFERENCES, floors, seed=seed, names=names, replicates=replicates)


def judge_rows(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows of the judge's calls and of the share of pairs of answers that needed none; none where none was asked.

    Args:
        counts: JUDGE_PAIRS, ordered pairs of answers to one question, and JUDGE_CALLS, verdicts.
    """
    pairs, calls = counts[JUDGE_PAIRS], counts[JUDGE_CALLS]
    if not pairs:
        return []
    values = {JUDGE_PAIRS: float(pairs), JUDGE_CALLS: float(calls), JUDGE_SAVED: 1 - calls / pairs}
    return [metric_row(metric, Estimate(value, 1)) for metric, value in values.items()]
