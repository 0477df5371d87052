"""Semantic calibration: is a model's most frequent class of answers right as often as it is probable?"""

from pathlib import Path

import pandas as pd

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, answer_splits, read_partition
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.classes import right_label
from pipeline.axes.questions.people import people_splits
from pipeline.axes.questions.question import Question
from pipeline.axes.semcal.calibration import (
    FLOORS,
    PEOPLE_SPLITS,
    SCORES,
    calibration_bins,
    gold_row,
    people_floors,
    people_row,
    simulated_floors,
    statistics_against,
)
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    """Write an evaluation; its table ``reliability`` has the points of reliability diagrams."""
    evaluation, seed, settings = ModelEvaluation(run, "semcal", model), run.params.seed, answer_splits(run.params)
    questions = read_questions(prompts)
    answers = {name: read_partition(path, questions, settings.values()) for name, path in evaluation.paths(partitions)}

    def against_gold(question: Question, own: Answers, condition: str) -> dict[str, float]:
        return gold_row(own.labels, str(right_label(question)), random_stream(seed, "halves", question.prompt_id))

    def against_people(question: Question, own: Answers, condition: str) -> dict[str, float]:
        splits = people_splits(question, len(own.spellings), seed=seed, number=PEOPLE_SPLITS)
        return people_row(splits, own.spellings, random_stream(seed, "halves", question.prompt_id))

    def floors(rows: pd.DataFrame, target: str, condition: str, split: str) -> dict[str, float]:
        if target == "people":
            return people_floors(rows)
        labels = [answers[condition][settings[split]][name].labels for name in rows["prompt_id"]]
        rng = random_stream(seed, "floor", model, condition, split)
        return simulated_floors(labels, rng, run.params.evaluate.floor_replicates)

    for split, setting in settings.items():
        for target, row in (("gold", against_gold), ("people", against_people)):
            chosen = [question for question in questions if (question.gold if target == "gold" else question.human)]
            if not chosen:
                continue
            rows, names, parts = answer_rows(answers, chosen, row, setting), {"split": split, "target": target}, []
            evaluation.add_tables("per_prompt", rows[["prompt_id", "condition", *SCORES]].assign(**names))
            for condition, own in rows.groupby("condition", sort=False):
                points = calibration_bins(own["confidence"].to_numpy(), own["label"].to_numpy())
                evaluation.add_table(condition, "reliability", points.assign(**names))
                parts.append(own.assign(**floors(own, target, condition, split)))
            evaluation.summarise(pd.concat(parts), statistics_against(target), FLOORS, split, [target])
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
