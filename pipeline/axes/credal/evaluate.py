"""The sets of a model's laws under several decoding settings: do they hold people's law? No model is loaded."""

import math
from pathlib import Path

from pipeline.axes.credal.hull import FLOORS, SPLITS, STATISTICS, coverage_row, set_row
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, read_partition
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.people import people_splits
from pipeline.axes.questions.question import Question
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    """Write an evaluation."""
    questions, seed, evaluation = read_questions(prompts), run.params.seed, ModelEvaluation(run, "credal", model)
    settings = (DEFAULT_SETTING, *run.params.generate.questions.settings)
    answers = {name: read_partition(path, questions, settings) for name, path in evaluation.paths(partitions)}

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        members = [answers[condition][setting][question.prompt_id] for setting in settings]
        found = set_row([each.labels for each in members])
        if not question.human:
            return {**found, **dict.fromkeys(("distance", "people_distance", "covered"), math.nan)}
        splits = people_splits(question, len(own.labels), seed=seed, number=SPLITS, samples=len(members))
        rng = random_stream(seed, "subset", question.prompt_id)
        return {**found, **coverage_row(splits, [each.spellings for each in members], rng)}

    rows = answer_rows(answers, questions, row)
    evaluation.summarise(rows, STATISTICS, FLOORS)
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
