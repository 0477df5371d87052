"""Whether a model is uncertain where people disagree (arXiv:2508.08204), and where it is wrong. The entropies of both
grow with the number of options offered (of independent answers they correlate at about 0.7), so correlations are within
questions with as many options. Logarithms are natural."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import entr

from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import (
    Answers,
    answer_is_right,
    answer_rows,
    auroc_of,
    class_counts,
    read_partitions,
)
from pipeline.axes.questions.question import Question, normalise, people_answers, read_questions
from pipeline.axes.uncertainty.metrics import MEASURES, OF_PROBABILITIES, SAMPLED
from pipeline.axes.uncertainty.score import QUESTION_STEP_COLUMNS
from pipeline.core.language.diversity import chao_wang_jost_entropy, plug_in_entropy
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import Statistic
from pipeline.dag.execution import StageRun, command_line

HALVINGS = 30
"""Random halvings of people behind the ceiling."""
DECIMALS = 10
"""Equal sets of answers give equal values but for rounding, which differs by processor; ranks would order them."""


def relative_entropy(law: np.ndarray) -> float:
    """H / ln n of float64[n], normalised first; 0 for one outcome."""
    law = np.asarray(law, dtype=np.float64)
    return float(entr(law / law.sum()).sum() / math.log(len(law))) if len(law) > 1 else 0.0


def longest_common_share(first: Sequence[str], second: Sequence[str]) -> float:
    """ROUGE-L F1 of two lists of words: twice their longest common subsequence over their lengths; 1 for two empty."""
    if not first or not second:
        return float(len(first) == len(second))
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, start=1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return 2 * row[-1] / (len(first) + len(second))


def laplacian_eigenvalues(similarity: np.ndarray) -> float:
    """Sum of max(0, 1 - e) over eigenvalues e of the normalised graph Laplacian of similarities float64[n, n]: it
    counts clusters of answers (Lin, Trivedi and Sun, arXiv:2305.19187)."""
    scale = 1 / np.sqrt(similarity.sum(axis=1))
    laplacian = np.eye(len(similarity)) - scale[:, None] * similarity * scale[None]
    return float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())


def question_row(
    question: Question, answers: Answers, law: Mapping[str, Any] | None, rng: np.random.Generator
) -> dict[str, float]:
    """A model's uncertainty about one question: MEASURES (NaN where there is nothing to compute one from), right,
    people_entropy and options. ``law`` is a row of QUESTION_STEP_COLUMNS, None where probabilities are unknown."""
    counts, _ = class_counts(answers.labels)
    words = [normalise(text or "").split() for text in answers.texts]
    similarity = np.array([[longest_common_share(first, second) for second in words] for first in words])
    values = plug_in_entropy(counts), 1 - counts.max() / counts.sum(), laplacian_eigenvalues(similarity)
    known = dict.fromkeys(OF_PROBABILITIES, math.nan)
    if law is not None:
        known |= {name: float(law[name]) for name in ("first_token_entropy", "mean_token_entropy")}
        choices = np.asarray(law["choice_probabilities"], dtype=np.float64)
        known["choice_entropy"] = relative_entropy(choices) if choices.sum() > 0 else math.nan
    people = class_counts([label for _, label in people_answers(question)])[0]
    return {
        **{name: round(value, DECIMALS) for name, value in zip(SAMPLED, values, strict=True)},
        **known,
        "right": answer_is_right(question, answers.labels, rng),
        "people_entropy": chao_wang_jost_entropy(people) if len(people) else math.nan,
        "options": len(question.options),
    }


def _centred_ranks(values: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mid-ranks float64[..., N] of values that count as often as their weights, less the mean of each stratum."""
    distinct, place = np.unique(values, return_inverse=True)
    totals = weights @ (place[:, None] == np.arange(len(distinct))).astype(np.float64)
    ranks = (totals.cumsum(axis=-1) - totals / 2)[..., place]
    groups = (np.asarray(strata)[:, None] == np.unique(strata)).astype(np.float64)
    sizes = weights @ groups
    return ranks - ((weights * ranks) @ groups / np.where(sizes > 0, sizes, 1)) @ groups.T


def rank_correlation(
    first: np.ndarray, second: np.ndarray, strata: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Spearman's correlation of float64[N] each, of what is left of ranks after the mean of each stratum, int[N], under
    weights float64[..., N]: float64[...], NaN where nothing is left."""
    weights = np.ones(len(first)) if weights is None else weights
    one, other = (_centred_ranks(side, strata, weights) for side in (first, second))
    spread = np.sqrt((weights * one**2).sum(axis=-1) * (weights * other**2).sum(axis=-1))
    # Rounding leaves a hair of a stratum that is constant.
    defined = (spread > 1e-9) & (len(strata) >= 3)
    found = (weights * one * other).sum(axis=-1) / np.where(defined, spread, 1)
    return np.where(defined, np.clip(found, -1, 1), math.nan)


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
    columns = (name, "people_entropy", "options")
    return Statistic(columns, lambda rows, weights: rank_correlation(*rows[[*columns]].to_numpy(float).T, weights))


OF_PEOPLE = {f"uncertainty_{name}_spearman": spearman_of(name) for name in MEASURES}
OF_RIGHT = {f"uncertainty_{name}_auroc": auroc_of(name) for name in MEASURES}


def main(run: StageRun, model: str, prompts: Path, partitions: Path, scores: Path, output: Path) -> None:
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
        ceiling = people_ceiling(asked, random_stream(seed, "halves"))
        evaluation.summarise(rows, OF_PEOPLE, dict.fromkeys(OF_PEOPLE, ceiling), stream=["people"])
    if np.isfinite(rows["right"]).any():
        evaluation.summarise(rows, OF_RIGHT, stream=["right"])
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    for condition, own in rows.groupby("condition"):
        if without := [name for name in MEASURES if not np.isfinite(own[name]).any()]:
            print(f"{run.title}: {condition} has nothing to compute from and leaves out {', '.join(without)}")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
