"""From answers and first tokens to reported numbers: is a model uncertain where people disagree, or where it is wrong?

Every correlation with people's entropy stands beside its partial one given the number of people's classes, and every
AUROC beside its audit for length (axis "uncertainty").
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.core.language.diversity import chao_wang_jost_entropy, plug_in_entropy
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.alignment import human_alignment
from pipeline.core.semantics.confidence import modal_class, modal_confidence
from pipeline.core.semantics.discrimination import (
    auroc,
    length_audit,
    prediction_rejection_ratio,
    risk_coverage_area,
)
from pipeline.core.semantics.partition import right_label
from pipeline.core.semantics.question import Question, people_counts
from pipeline.core.semantics.uncertainty import token_measures
from pipeline.core.statistics.intervals import Estimate, metric_row, percentile_interval

MEASURES = ("semantic_entropy", "answer_uncertainty", "token_entropy", "token_surprise", "nucleus_entropy")
"""Larger for a less certain model."""
NUCLEUS = 0.9
ALIGNMENT = ("partial_pearson", "normalised_pearson", "normalised_spearman", "raw_pearson", "permutation_p")
AUDIT = ("auroc_within_length", "auroc_length", "length_score_spearman", "length_label_spearman")


def question_row(
    question: Question,
    counts: Mapping[str, int],
    law: np.ndarray,
    entropy: float,
    vocabulary: int,
    length: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """A model's uncertainty about one question.

    Args:
        question: What was asked.
        counts: Answers by class; at least one.
        law: float64[K], the most probable first tokens, with all but a two-thousandth of the probability.
        entropy: Of the whole law of the first token, nats.
        vocabulary: Tokens of the whole law.
        length: Mean tokens of the answers.
        rng: Of ties.

    Returns:
        prompt_id, category, MEASURES, right (NaN where nothing is right), people_entropy_nats (NaN where people were
        not asked), classes (of people, at least 2) and length.
    """
    values = np.array(list(counts.values()))
    answer, right = list(counts)[modal_class(values, rng)], right_label(question)
    ordered = np.asarray(law, dtype=np.float64)
    # At least two tokens, of which the second may have no probability.
    tokens = token_measures(np.append(ordered, [0.0, 0.0]) / ordered.sum())
    people = np.array(list(people_counts(question).values()), dtype=np.int64)
    return {
        "prompt_id": question.prompt_id,
        "category": question.category,
        "semantic_entropy": plug_in_entropy(values),
        "answer_uncertainty": 1 - float(modal_confidence(values)),
        "token_entropy": entropy / math.log(vocabulary),
        "token_surprise": -tokens["log_top_probability"],
        "nucleus_entropy": tokens[f"top_p_entropy_{NUCLEUS:g}"],
        "right": math.nan if right is None else float(answer == right),
        "people_entropy_nats": chao_wang_jost_entropy(people) if len(people) else math.nan,
        "classes": max(2, len(question.human)),
        "length": length,
    }


def metric_rows(per_prompt: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int) -> list[dict[str, Any]]:
    """Rows of metrics.csv by measure: alignment with people's entropy, and telling right answers from wrong ones.

    Args:
        per_prompt: Rows of ``question_row``.
        seed: Root seed; ``names`` complete the streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval, and permutations per test.
    """
    rows = []
    asked = per_prompt[np.isfinite(per_prompt["people_entropy_nats"])]
    judged = per_prompt[np.isfinite(per_prompt["right"])]
    for measure in MEASURES:
        if len(asked):
            rng = random_stream(seed, "alignment", *names, measure)
            columns = (asked[name].to_numpy() for name in (measure, "people_entropy_nats", "classes"))
            found = human_alignment(*columns, replicates=replicates, rng=rng)
            for name in ALIGNMENT:
                interval = (found["partial_low"], found["partial_high"]) if name == "partial_pearson" else ()
                rows.append(_row(f"uncertainty_{measure}_{name}", found[name], len(asked), *interval))
        if len(judged):
            rng = random_stream(seed, "bootstrap", *names, measure)
            rows += _correctness(judged, measure, rng, replicates)
    return rows


def _correctness(judged: pd.DataFrame, measure: str, rng: np.random.Generator, replicates: int) -> list[dict[str, Any]]:
    score, labels = -judged[measure].to_numpy(), judged["right"].to_numpy() > 0.5
    picks = rng.integers(len(score), size=(replicates, len(score)))
    interval = percentile_interval(np.array([auroc(score[pick], labels[pick]) for pick in picks]))
    found = length_audit(score, labels, judged["length"].to_numpy())
    size, prefix = len(judged), f"uncertainty_{measure}"
    return [
        _row(f"{prefix}_auroc", found["auroc"], size, *interval),
        _row(f"{prefix}_risk_coverage", risk_coverage_area(score, labels), size),
        _row(f"{prefix}_rejection_ratio", prediction_rejection_ratio(score, labels), size),
        *(_row(f"{prefix}_{name}", found[name], size) for name in AUDIT),
    ]


def _row(metric: str, value: float, size: int, low: float = math.nan, high: float = math.nan) -> dict[str, Any]:
    return metric_row(metric, Estimate(value, size, low, high, undefined=int(not math.isfinite(value))))
