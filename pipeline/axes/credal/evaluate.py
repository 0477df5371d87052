"""Credal sets: the convex hull of a model's laws over the K classes of answers to one question, one for each decoding
setting, and whether people's law is in it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, class_counts, read_partitions
from pipeline.axes.questions.people import PeopleSplit, asked_questions, people_splits, upper_band
from pipeline.axes.questions.question import Question
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

SPLITS = 20
"""Splits of people behind a distance and its band."""
STATISTICS = {f"credal_{name}": mean_of(name) for name in ("distance", "covered")}
FLOORS = {"credal_distance": "people_distance", "credal_covered": 0.95}


def hull_distance(members: np.ndarray, law: np.ndarray) -> float:
    """Total variation of a law float64[K] from the nearest mixture of members float64[S, K], as a linear programme: the
    minimum over weights w of 1/2 || members' w - law ||_1, with K slacks for the absolute values."""
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


def split_distance(split: PeopleSplit, members: Sequence[Sequence[str | None]]) -> float:
    """Distance of the law of the people asked from the mixtures of the members' answers, spellings each."""
    labels = [split.classes(own) for own in members]
    law = split.law | dict.fromkeys((label for own in labels for label in own if label not in split.law), 0.0)
    counts = np.array([class_counts(own, law)[0] for own in labels])
    return hull_distance(counts / counts.sum(axis=1, keepdims=True), np.array(list(law.values())))


def coverage_row(
    splits: Sequence[PeopleSplit], members: Sequence[Sequence[str | None]], rng: np.random.Generator
) -> dict[str, float]:
    """How far people's law is from the set, and from that of as many held-out samples of people; means over splits."""
    distances = []
    for split in splits:
        size = len(split.held_out[0])
        chosen = [[own[place] for place in rng.choice(len(own), min(len(own), size), replace=False)] for own in members]
        distances.append((split_distance(split, chosen), split_distance(split, split.held_out)))
    distance, of_people = np.mean(distances, axis=0).tolist()
    band = upper_band([people for _, people in distances])
    return {"distance": distance, "people_distance": of_people, "covered": float(distance <= band + 1e-9)}


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    seed, evaluation, questions = run.params.seed, ModelEvaluation(run, "credal", model), asked_questions(prompts)
    settings = (DEFAULT_SETTING, *run.params.generate.questions.settings)
    answers = read_partitions(evaluation, partitions, questions, settings)

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        members = [answers[condition][setting][question.prompt_id].spellings for setting in settings]
        splits = people_splits(question, len(own.labels), seed=seed, number=SPLITS, samples=len(members))
        return coverage_row(splits, members, random_stream(seed, "subset", question.prompt_id))

    rows = answer_rows(answers, questions, row)
    evaluation.summarise(rows, STATISTICS, FLOORS)
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
