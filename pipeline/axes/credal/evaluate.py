"""Credal sets: the mixtures of a model's laws over answers to one question, and whether people's law is among them.

The members p_1, ..., p_S are the laws under the decoding settings, over the same K classes; the set is their convex
hull. No model is loaded.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import entr, softmax

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, read_partitions
from pipeline.axes.questions.people import PeopleSplit, people_splits, upper_band
from pipeline.axes.questions.question import Question, read_questions
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

SPLITS = 20
"""Splits of people behind a distance and its band."""
MEASURES = ("distance", "covered", "lower_entropy_nats", "upper_entropy_nats")
STATISTICS = {f"credal_{name}": mean_of(name) for name in MEASURES}
FLOORS = {"credal_distance": "people_distance", "credal_covered": 0.95}


def hull_distance(members: np.ndarray, law: np.ndarray) -> float:
    """Total variation of a law float64[K] from the nearest mixture of members float64[S, K].

    min over weights w of 1/2 || members' w - law ||_1 as a linear programme: K slacks s with -s <= members' w - law <=
    s.
    """
    size, classes = members.shape
    slack = np.eye(classes)
    found = linprog(
        np.concatenate([np.zeros(size), np.full(classes, 0.5)]),
        A_ub=np.block([[members.T, -slack], [-members.T, -slack]]),
        b_ub=np.concatenate([law, -law]),
        A_eq=np.concatenate([np.ones(size), np.zeros(classes)])[None],
        b_eq=[1.0],
    )
    if found.fun is None:
        raise ValueError(f"the linear programme of the hull's distance has no solution: {found.message}")
    return float(found.fun)


def entropy_bounds(members: np.ndarray) -> dict[str, float]:
    """Least and largest entropy over the set of members float64[S, K], in nats; the least is a member's."""
    own = entr(members).sum(axis=-1)
    # Concave in the mixture's weights.
    found = minimize(
        lambda logits: -entr(softmax(logits) @ members).sum(),
        np.zeros(len(members)),
        tol=1e-12,
        options={"maxiter": 500},
    )
    # No less than a vertex, which finite logits only come near to.
    upper = max(-float(found.fun), float(own.max()))
    return {"lower_entropy_nats": float(own.min()), "upper_entropy_nats": upper}


def laws_of(members: Sequence[Sequence[str]], others: Sequence[str] = ()) -> np.ndarray:
    """Laws float64[S, K] of lists of classes, over the classes of all of them and ``others``, in that order."""
    names = {name: place for place, name in enumerate(dict.fromkeys((*others, *(x for own in members for x in own))))}
    counts = [np.bincount([names[label] for label in own], minlength=len(names)) for own in members]
    return np.array([own / own.sum() for own in counts])


def coverage_row(
    splits: Sequence[PeopleSplit], members: Sequence[Sequence[str | None]], rng: np.random.Generator
) -> dict[str, float]:
    """How far people's law is from the set, and from that of as many held-out samples of people; means over splits."""
    distances = []
    for split in splits:
        size = len(split.held_out[0])
        chosen = [[own[place] for place in rng.choice(len(own), min(len(own), size), replace=False)] for own in members]
        for sources in (chosen, split.held_out):
            found = laws_of([split.classes(own) for own in sources], list(split.law))
            people = np.pad(list(split.law.values()), (0, found.shape[1] - len(split.law)))
            distances.append(hull_distance(found, people))
    distances = np.reshape(distances, (-1, 2))
    distance, of_people = distances.mean(axis=0).tolist()
    band = upper_band(distances[:, 1])
    return {"distance": distance, "people_distance": of_people, "covered": float(distance <= band + 1e-9)}


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    """Write an evaluation."""
    questions, seed, evaluation = read_questions(prompts), run.params.seed, ModelEvaluation(run, "credal", model)
    settings = (DEFAULT_SETTING, *run.params.generate.questions.settings)
    answers = read_partitions(evaluation, partitions, questions, settings)

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        members = [answers[condition][setting][question.prompt_id] for setting in settings]
        bounds = entropy_bounds(laws_of([each.labels for each in members]))
        if not question.human:
            return {**bounds, **dict.fromkeys(("distance", "people_distance", "covered"), math.nan)}
        splits = people_splits(question, len(own.labels), seed=seed, number=SPLITS, samples=len(members))
        rng = random_stream(seed, "subset", question.prompt_id)
        return {**bounds, **coverage_row(splits, [each.spellings for each in members], rng)}

    rows = answer_rows(answers, questions, row)
    evaluation.summarise(rows, STATISTICS, FLOORS)
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
