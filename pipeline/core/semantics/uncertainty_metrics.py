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
from pipeline.core.semantics.alignment import human_alignment, partial_correlation
from pipeline.core.semantics.confidence import modal_class, modal_confidence
from pipeline.core.semantics.discrimination import (
    auroc,
    length_audit,
    prediction_rejection_ratio,
    risk_coverage_area,
)
from pipeline.axes.questions.classes import normalise, right_label
from pipeline.axes.questions.question import Question, people_counts
from pipeline.core.semantics.question_means import paired_statistic, resamples, value_row
from pipeline.core.semantics.uncertainty import (
    TOP_K,
    TOP_P,
    choice_measures,
    lexical_similarities,
    similarity_measures,
    token_measures,
)

_TOKEN_MEASURES = {
    **{f"top_{k}_entropy": f"top_k_entropy_{k}" for k in TOP_K},
    **{f"nucleus_{mass * 100:.0f}_entropy": f"top_p_entropy_{mass:g}" for mass in TOP_P},
}
_STEP_MEASURES = {
    f"mean_{name}": measure for name, measure in ({"token_entropy": "total_entropy"} | _TOKEN_MEASURES).items()
}
CHOICE_MEASURES = ("choice_entropy", "choice_surprise")
"""Those of the law over the letters of options, on questions that have any."""
MEASURES = (
    *("semantic_entropy", "answer_uncertainty", "lexical_dissimilarity", "laplacian_eigenvalues"),
    *("token_entropy", "token_surprise", *_TOKEN_MEASURES, *CHOICE_MEASURES),
    *("mean_token_surprise", *_STEP_MEASURES),
)
"""Larger for a less certain model."""
SAMPLED_DECIMALS = 10
"""Of measures of sampled answers. Equal sets of answers give equal values but for rounding, which differs between
processors; ranks would put them in an order."""
AUDIT = ("auroc_within_length", "length_score_spearman")
LENGTH = ("auroc_length", "length_label_spearman")
"""Of the answers alone, whatever the measure."""


def modal_answer_is_right(question: Question, counts: Mapping[str, int], rng: np.random.Generator) -> float:
    """1 where the most frequent class of answers is right, else 0; NaN where nothing is right or wrong.

    Args:
        question: What was asked.
        counts: Answers by class; at least one.
        rng: Of ties.
    """
    answer, right = list(counts)[modal_class(np.array(list(counts.values())), rng)], right_label(question)
    return math.nan if right is None else float(answer == right)


def question_row(
    question: Question,
    counts: Mapping[str, int],
    answers: Sequence[str | None],
    law: np.ndarray,
    entropy: float,
    vocabulary: int,
    choices: np.ndarray,
    steps: Mapping[str, float],
    length: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """A model's uncertainty about one question.

    Args:
        question: What was asked.
        counts: Answers by class; at least one.
        answers: Their texts, None for a reply without an answer.
        law: float64[K], the most probable first tokens, with all but a two-thousandth of the probability.
        entropy: Of the whole law of the first token, nats.
        vocabulary: Tokens of the whole law.
        choices: float64[n], probabilities of the letters of its options as the first token; empty without options.
        steps: Means over the steps of the answers of what ``token_measures`` returns.
        length: Mean tokens of the answers.
        rng: Of ties.

    Returns:
        prompt_id, category, MEASURES (those of similarity NaN for a single answer, CHOICE_MEASURES without options),
        choice_mass, the probability of all options' letters (NaN without options), right (NaN where nothing is),
        people_entropy_nats (NaN where people were not asked), classes (of people, at least 2) and length.
    """
    values = np.array(list(counts.values()))
    ordered = np.asarray(law, dtype=np.float64)
    # Tokens beyond those that were kept have next to no probability.
    tokens = token_measures(np.append(ordered, np.zeros(max(TOP_K))) / ordered.sum())
    chosen = choice_measures(choices, [[place] for place in range(len(choices))]) if len(choices) else {}
    people = np.array(list(people_counts(question).values()), dtype=np.int64)
    similarity = lexical_similarities([normalise(text or "").split() for text in answers])
    alike = similarity_measures(similarity) if len(answers) > 1 else {}
    sampled = {
        "semantic_entropy": plug_in_entropy(values),
        "answer_uncertainty": 1 - float(modal_confidence(values)),
        "lexical_dissimilarity": 1 - alike.get("lexical_similarity", math.nan),
        "laplacian_eigenvalues": alike.get("laplacian_eigenvalues", math.nan),
    }
    return {
        "prompt_id": question.prompt_id,
        "category": question.category,
        **{name: round(value, SAMPLED_DECIMALS) for name, value in sampled.items()},
        "token_entropy": entropy / math.log(vocabulary),
        "token_surprise": -tokens["log_top_probability"],
        **{name: tokens[measure] for name, measure in _TOKEN_MEASURES.items()},
        **{name: steps[measure] for name, measure in _STEP_MEASURES.items()},
        "mean_token_surprise": -steps["log_top_probability"],
        "choice_entropy": chosen.get("choice_entropy", math.nan),
        "choice_surprise": -chosen.get("log_top_choice", math.nan),
        "choice_mass": chosen.get("choice_mass", math.nan),
        "right": modal_answer_is_right(question, counts, rng),
        "people_entropy_nats": chao_wang_jost_entropy(people) if len(people) else math.nan,
        "classes": max(2, len(question.human)),
        "length": length,
    }


def metric_rows(
    per_prompt: pd.DataFrame, base: pd.DataFrame, *, seed: int, names: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """Rows of metrics.csv by measure: alignment with people's entropy, and telling right answers from wrong ones.

    95% bootstrap intervals over questions, the same drawn for both sides of a change from base. CHOICE_MEASURES are
    over the questions that have options, and have no rows where none has.

    Args:
        per_prompt: Rows of ``question_row``.
        base: Those of the base checkpoint on the same questions, in the same order.
        seed: Root seed; ``names`` complete the streams' names.
        names: Axis, model, condition, split.
        replicates: Resamples per interval, and permutations per test.
    """
    rows = []
    asked, judged = (np.isfinite(per_prompt[name].to_numpy()) for name in ("people_entropy_nats", "right"))
    chosen = np.logical_and(*(np.isfinite(table[CHOICE_MEASURES[0]].to_numpy()) for table in (per_prompt, base)))
    plain = tuple(measure for measure in MEASURES if measure not in CHOICE_MEASURES)
    for measures, given, stream in ((plain, np.ones_like(chosen), ()), (CHOICE_MEASURES, chosen, ("choices",))):
        if (asked & given).any():
            sides, weights = _drawn((per_prompt, base), asked & given, replicates, seed, (*names, "people", *stream))
            for measure in measures:
                rng = random_stream(seed, "alignment", *names, measure)
                rows += _alignment_rows(*sides, measure, weights, replicates, rng)
        if (judged & given).any():
            sides, weights = _drawn((per_prompt, base), judged & given, replicates, seed, (*names, "gold", *stream))
            for measure in measures:
                rows += _correctness_rows(*sides, measure, weights)
    if judged.any():
        own = per_prompt[judged]
        audit = _audit(own, MEASURES[0])
        rows += [value_row(f"uncertainty_{name}", audit[name], len(own)) for name in LENGTH]
    return rows


def _drawn(
    sides: Sequence[pd.DataFrame], kept: np.ndarray, replicates: int, seed: int, stream: Sequence[str]
) -> tuple[list[pd.DataFrame], np.ndarray]:
    """The kept questions of both sides, and how often each resample has each of them: float64[R, N]."""
    size = int(kept.sum())
    drawn = resamples(size, replicates, random_stream(seed, "bootstrap", *stream))
    return [table[kept].reset_index(drop=True) for table in sides], drawn


def _alignment_rows(
    own: pd.DataFrame,
    base: pd.DataFrame,
    measure: str,
    weights: np.ndarray,
    replicates: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    people, classes = own["people_entropy_nats"].to_numpy(), own["classes"].to_numpy()
    found = human_alignment(own[measure].to_numpy(), people, classes, replicates=replicates, rng=rng)

    def partial(table: pd.DataFrame, weights: np.ndarray | None = None) -> np.ndarray:
        return partial_correlation(table[measure].to_numpy(), people, classes, weights)

    prefix = f"uncertainty_{measure}"
    return [
        *paired_statistic(f"{prefix}_partial_pearson", partial, own, base, weights),
        *(value_row(f"{prefix}_{name}", value, len(own)) for name, value in found.items() if name != "partial_pearson"),
    ]


def _correctness_rows(own: pd.DataFrame, base: pd.DataFrame, measure: str, weights: np.ndarray) -> list[dict[str, Any]]:
    def area(table: pd.DataFrame, weights: np.ndarray | None = None) -> np.ndarray:
        return auroc(-table[measure].to_numpy(), table["right"].to_numpy() > 0.5, weights)

    score, labels = -own[measure].to_numpy(), own["right"].to_numpy() > 0.5
    audit, size, prefix = _audit(own, measure), len(own), f"uncertainty_{measure}"
    return [
        *paired_statistic(f"{prefix}_auroc", area, own, base, weights),
        value_row(f"{prefix}_risk_coverage", risk_coverage_area(score, labels), size),
        value_row(f"{prefix}_rejection_ratio", float(prediction_rejection_ratio(score, labels)), size),
        *(value_row(f"{prefix}_{name}", audit[name], size) for name in AUDIT),
    ]


def _audit(own: pd.DataFrame, measure: str) -> dict[str, float]:
    return length_audit(-own[measure].to_numpy(), own["right"].to_numpy() > 0.5, own["length"].to_numpy())
