"""Semantic calibration: is a model's most frequent class of answers right as often as it is probable?"""

from pathlib import Path

import pandas as pd

from pipeline.axes.questions.answers import Answers
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.classes import right_label
from pipeline.axes.questions.question import Question
from pipeline.axes.questions.sides import Comparison
from pipeline.axes.semcal.semantic_calibration import (
    PEOPLE_SPLITS,
    gold_statistics,
    people_floors,
    people_row,
    people_statistics,
    prediction,
    reliability,
    simulated_floors,
)
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line

SHOWN = ["prompt_id", "confidence", "label", "brier"]


def main(run: StageRun, model: str, condition: str, prompts: Path, partitions: list[Path], output: Path) -> None:
    """Write an evaluation directory; its table ``reliability`` has the points of reliability diagrams."""
    seed, questions = run.params.seed, read_questions(prompts)
    compared = Comparison(run, "semcal", model, condition, partitions)
    by_target = {
        "gold": [question for question in questions if question.gold],
        "people": [question for question in questions if question.human],
    }

    def gold_row(question: Question, answers: Answers, name: str) -> dict[str, float]:
        law = {str(right_label(question)): 1.0}
        found = prediction(answers.labels, law, random_stream(seed, "halves", question.prompt_id))
        return {**dict(zip(SHOWN[1:], found, strict=True)), "doubt": -found[0], "right": found[1]}

    def row_of_people(question: Question, answers: Answers, name: str) -> dict[str, float]:
        splits = compared.people_splits(question, len(answers.spellings), PEOPLE_SPLITS)
        return people_row(splits, answers.spellings, random_stream(seed, "halves", question.prompt_id))

    tables, diagrams = [], []
    for split, setting in compared.styles.items():
        for target, chosen in by_target.items():
            if not chosen:
                continue
            if target == "gold":
                rows = compared.rows(chosen, setting, gold_row)
                rng = random_stream(seed, "floor", model, condition, split)
                labels = [compared.answers(condition, setting, question).labels for question in chosen]
                floors = simulated_floors(labels, rng, run.params.evaluate.floor_replicates)
                statistics = gold_statistics()
            else:
                rows = compared.rows(chosen, setting, row_of_people)
                floors = people_floors(compared.own(rows), PEOPLE_SPLITS)
                statistics = people_statistics(PEOPLE_SPLITS)
            compared.add(rows, statistics, floors, split, target)
            own = compared.own(rows)[SHOWN]
            points = reliability(own["confidence"].to_numpy(), own["label"].to_numpy())
            tables.append(own.assign(split=split, target=target))
            diagrams.append(points.assign(split=split, target=target))
    compared.write(output, pd.concat(tables, ignore_index=True), reliability=pd.concat(diagrams, ignore_index=True))


if __name__ == "__main__":
    command_line()
