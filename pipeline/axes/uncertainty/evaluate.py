"""Whether a model is uncertain where people disagree (arXiv:2508.08204), and where it is wrong; no model is loaded.

The entropies of people's answers and of a model's both grow with the number of options offered: independent answers to
questions with 2 to 6 options have entropies that correlate at about 0.7. So correlations are within questions with as
many options. Where none were offered, the number of classes that people gave is a result of their disagreement, and
nothing to condition on.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, class_counts, read_partitions
from pipeline.axes.questions.classes import normalise
from pipeline.axes.questions.discrimination import answer_is_right, auroc_of, auroc_within_length
from pipeline.axes.questions.question import Question, people_answers, read_questions
from pipeline.axes.uncertainty.measures import (
    MEASURES,
    OF_PROBABILITIES,
    SAMPLED,
    first_token_measures,
    laplacian_eigenvalues,
    lexical_similarities,
    relative_entropy,
)
from pipeline.axes.uncertainty.score import QUESTION_STEP_COLUMNS
from pipeline.core.language.diversity import chao_wang_jost_entropy, plug_in_entropy
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import Statistic
from pipeline.dag.execution import StageRun, command_line

HALVINGS = 30
"""Random halvings of people behind the ceiling."""
DECIMALS = 10
"""Equal sets of answers give equal values but for rounding, which differs by processor; ranks would order them."""


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
    known = dict.fromkeys(OF_PROBABILITIES, math.nan)
    if law is not None:
        known |= first_token_measures(law["probabilities"], law["entropy_nats"], int(law["vocabulary"]))
        known["mean_token_entropy"] = float(law["mean_token_entropy"])
        choices = np.asarray(law["choice_probabilities"], dtype=np.float64)
        known["choice_entropy"] = relative_entropy(choices) if choices.sum() > 0 else math.nan
    people = class_counts([label for _, label in people_answers(question)])[0]
    return {
        **{name: round(value, DECIMALS) for name, value in zip(SAMPLED, values, strict=True)},
        **known,
        "right": answer_is_right(question, answers.labels, rng),
        "people_entropy": chao_wang_jost_entropy(people) if len(people) else math.nan,
        "options": len(question.options),
        "length": float(np.mean(answers.lengths)),
    }


def rank_correlation(
    first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Spearman's correlation of float64[N] and float64[N], of what is left of ranks after the mean of each stratum.

    ``strata``: int[N], the number of options; ``weights``: float64[..., N]. float64[...], NaN where nothing is left.
    """
    weights = np.ones(len(first)) if weights is None else weights
    return _correlation(_ranks(first, weights), _ranks(second, weights), strata, weights)


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mid-ranks float64[..., N] of values float64[N] that count as often as their weights."""
    distinct, place = np.unique(values, return_inverse=True)
    totals = weights @ (place[:, None] == np.arange(len(distinct))).astype(np.float64)
    return (totals.cumsum(axis=-1) - totals / 2)[..., place]


def _correlation(first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Correlation within strata of values float64[..., N]."""
    groups = (np.asarray(strata)[:, None] == np.unique(strata)).astype(np.float64)
    sizes = weights @ groups

    def centred(values: np.ndarray) -> np.ndarray:
        return values - ((weights * values) @ groups / np.where(sizes > 0, sizes, 1)) @ groups.T

    one, other = centred(first), centred(second)
    spread = np.sqrt((weights * one**2).sum(axis=-1) * (weights * other**2).sum(axis=-1))
    # Rounding leaves a hair of a stratum that is constant.
    defined = (spread > 1e-9) & (len(strata) >= 3)
    found = (weights * one * other).sum(axis=-1) / np.where(defined, spread, 1)
    return np.where(defined, np.clip(found, -1, 1), math.nan)


def orders_within(strata: np.ndarray, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Random permutations int64[R, N] of the places 0 to N - 1 that leave every place in its stratum, int[N]."""
    _, group = np.unique(strata, return_inverse=True)
    orders = np.empty((replicates, len(group)), dtype=np.int64)
    # Sorted by stratum, in random order within each.
    orders[:, np.argsort(group, kind="stable")] = np.argsort(group + rng.random(orders.shape), axis=1)
    return orders


def adjusted_p_values(
    measures: Mapping[str, np.ndarray],
    people_entropy: np.ndarray,
    strata: np.ndarray,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Two-sided p of the correlation of each measure with people's entropy, adjusted for all of them (max-T).

    The same permutations for all measures; a p is the share of them in which the largest T of any measure reaches its
    own (Westfall and Young 1993). T = |correlation| sqrt(n - 1), as a measure that few questions have has large
    correlations by chance. Measures are NaN on questions that they do not have; so is a p whose correlation is
    undefined.
    """
    # A question keeps to those with as many options, and with the same measures.
    known = np.isfinite(np.stack(list(measures.values())))
    patterns = np.unique(np.vstack([strata, known]), axis=1, return_inverse=True)[1].ravel()
    orders = orders_within(patterns, replicates, rng)
    largest, found = np.zeros(replicates), {}
    for name, values in measures.items():
        own = np.isfinite(values)
        scale = math.sqrt(max(0, int(own.sum()) - 1))
        found[name] = scale * abs(float(rank_correlation(values[own], people_entropy[own], strata[own])))
        if math.isfinite(found[name]):
            once, ranks = np.ones(int(own.sum())), np.zeros(len(own))
            ranks[own] = _ranks(people_entropy[own], once)
            drawn = _correlation(_ranks(values[own], once), ranks[orders][:, own], strata[own], once)
            largest = np.fmax(largest, scale * np.abs(drawn))
    return {
        name: float((1 + (largest >= value - 1e-12).sum()) / (1 + replicates)) if math.isfinite(value) else math.nan
        for name, value in found.items()
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


def spearman_of(name: str) -> Statistic:
    """Correlation of a measure with people's entropy, within questions with as many options."""

    def correlation(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        return rank_correlation(*(rows[column].to_numpy() for column in (name, "people_entropy", "options")), weights)

    return Statistic((name, "people_entropy"), correlation)


OF_PEOPLE = {f"uncertainty_{name}_spearman": spearman_of(name) for name in MEASURES}
OF_RIGHT = {f"uncertainty_{name}_auroc": auroc_of(name) for name in MEASURES}
OF_RIGHT |= {f"length_{name}_auroc_within": auroc_of(name, auroc_within_length, "length") for name in MEASURES}


def main(run: StageRun, model: str, prompts: Path, partitions: Path, scores: Path, output: Path) -> None:
    """Write an evaluation."""
    questions, seed, evaluation = read_questions(prompts), run.params.seed, ModelEvaluation(run, "uncertainty", model)
    laws = {
        name: read_table(path, QUESTION_STEP_COLUMNS).set_index("prompt_id").to_dict("index")
        for name, path in evaluation.paths(scores)
    }

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        # A model whose probabilities are not known has no row: measures that need them are left out.
        law = laws[condition].get(question.prompt_id)
        return question_row(question, own, law, random_stream(seed, "ties", question.prompt_id))

    rows = answer_rows(read_partitions(evaluation, partitions, questions), questions, row)
    if asked := [question for question in questions if question.human]:
        evaluation.summarise(rows, OF_PEOPLE, stream=["people"])
        ceiling = people_ceiling(asked, random_stream(seed, "halves"))
        for condition, own in rows[np.isfinite(rows["people_entropy"])].groupby("condition"):
            p_values = adjusted_p_values(
                {name: own[name].to_numpy() for name in MEASURES},
                own["people_entropy"].to_numpy(),
                own["options"].to_numpy(),
                replicates=run.params.evaluate.bootstrap_replicates,
                rng=random_stream(seed, "permutations", model, condition),
            )
            evaluation.add_value(condition, "uncertainty_ceiling", ceiling, len(asked))
            for name, value in p_values.items():
                evaluation.add_value(condition, f"uncertainty_{name}_p", value, len(asked))
    if np.isfinite(rows["right"]).any():
        evaluation.summarise(rows, OF_RIGHT, stream=["right"])
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    for condition, own in rows.groupby("condition"):
        if without := [name for name in MEASURES if not np.isfinite(own[name]).any()]:
            print(f"{run.title}: {condition} has nothing to compute from and leaves out {', '.join(without)}")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
