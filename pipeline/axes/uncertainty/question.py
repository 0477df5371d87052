"""A model's uncertainty about questions, and its statistics: against people's entropy, and against right and wrong."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.questions.answers import Answers, class_counts
from pipeline.axes.questions.classes import normalise, right_label
from pipeline.axes.questions.confidence import modal_class
from pipeline.axes.questions.discrimination import auroc_of, auroc_within_length
from pipeline.axes.questions.question import Question, people_answers
from pipeline.axes.uncertainty.alignment import rank_correlation
from pipeline.axes.uncertainty.measures import (
    AUDITED,
    MEASURES,
    OF_PROBABILITIES,
    SAMPLED,
    SAMPLED_DECIMALS,
    first_token_measures,
    laplacian_eigenvalues,
    lexical_similarities,
    relative_entropy,
)
from pipeline.core.language.diversity import chao_wang_jost_entropy, plug_in_entropy
from pipeline.core.statistics.summarise import Statistic

HALVINGS = 30
"""Random halvings of people behind the ceiling."""


def answer_is_right(question: Question, labels: Sequence[str], rng: np.random.Generator) -> float:
    """1 where the most frequent class of answers is right, else 0; NaN where nothing is right or wrong."""
    right = right_label(question)
    counts, law = class_counts(labels, None if right is None else {right: 1.0})
    return math.nan if right is None else float(law[modal_class(counts, rng)])


def question_row(
    question: Question, answers: Answers, law: Mapping[str, Any] | None, rng: np.random.Generator
) -> dict[str, float]:
    """A model's uncertainty about one question: MEASURES, right, people_entropy, options and length.

    ``law`` is a row of QUESTION_STEP_COLUMNS, None for a model whose probabilities are not known. A measure that there
    is nothing to compute from is NaN.
    """
    counts, _ = class_counts(answers.labels)
    similarity = lexical_similarities([normalise(text or "").split() for text in answers.texts])
    values = plug_in_entropy(counts), 1 - counts.max() / counts.sum(), laplacian_eigenvalues(similarity)
    sampled = {name: round(value, SAMPLED_DECIMALS) for name, value in zip(SAMPLED, values, strict=True)}
    known = dict.fromkeys(OF_PROBABILITIES, math.nan)
    if law is not None:
        known |= first_token_measures(law["probabilities"], law["entropy_nats"], int(law["vocabulary"]))
        known["mean_token_entropy"] = float(law["mean_token_entropy"])
        choices = np.asarray(law["choice_probabilities"], dtype=np.float64)
        known["choice_entropy"] = relative_entropy(choices) if choices.sum() > 0 else math.nan
    people = class_counts([label for _, label in people_answers(question)])[0]
    return {
        **sampled,
        **known,
        "right": answer_is_right(question, answers.labels, rng),
        "people_entropy": chao_wang_jost_entropy(people) if len(people) else math.nan,
        "options": len(question.options),
        "length": float(np.mean(answers.lengths)),
    }


def people_ceiling(questions: Sequence[Question], rng: np.random.Generator) -> float:
    """Mean correlation of the entropies of two random halves of people: about what a perfect measure could reach."""
    strata = np.array([len(question.options) for question in questions])
    found = []
    for _ in range(HALVINGS):
        orders = [rng.permutation([label for _, label in people_answers(question)]) for question in questions]
        halves = np.array([[chao_wang_jost_entropy(class_counts(h)[0]) for h in np.array_split(o, 2)] for o in orders])
        found.append(rank_correlation(halves[:, 0], halves[:, 1], strata))
    return float(np.mean(found))


def people_statistics() -> dict[str, Statistic]:
    """Correlation of each measure with people's entropy, within questions with as many options."""
    return {f"uncertainty_{name}_spearman": _spearman(name, "people_entropy") for name in MEASURES}


def right_statistics() -> dict[str, Statistic]:
    """AUROC of each measure for wrong answers, with the audit for length of AUDITED."""
    found = {f"uncertainty_{name}_auroc": auroc_of(name) for name in MEASURES}
    for name in AUDITED:
        prefix = f"length_{name}"
        found[f"{prefix}_spearman"] = _spearman(name, "length")
        found[f"{prefix}_auroc"] = auroc_of(name)
        found[f"{prefix}_auroc_within"] = auroc_of(name, auroc_within_length, "length")
    found["length_right_spearman"] = _spearman("right", "length")
    return found


def _spearman(name: str, other: str) -> Statistic:
    def correlation(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return rank_correlation(*(rows[column].to_numpy() for column in (name, other, "options")), weights)

    return Statistic((name, other), correlation)
