"""Agreement of a model's answers with people's; no model is loaded."""

from pathlib import Path
from typing import Any

from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.human.agreement import FLOORS, STATISTICS, question_row
from pipeline.axes.questions.answers import Answers, answer_rows, answer_splits, read_partition
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.people import people_splits
from pipeline.axes.questions.question import Question
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def main(run: StageRun, model: str, prompts: Path, partitions: Path, output: Path) -> None:
    """Write an evaluation."""
    params, settings, evaluation = run.params, answer_splits(run.params), ModelEvaluation(run, "human", model)
    questions = [question for question in read_questions(prompts) if question.human]
    if not questions:
        raise ArtifactError(f"{prompts} has no question that people were asked, which the axis human needs")
    answers = {name: read_partition(path, questions, settings.values()) for name, path in evaluation.paths(partitions)}

    def row(question: Question, own: Answers, condition: str) -> dict[str, Any]:
        size, number = len(own.spellings), params.evaluate.floor_replicates
        splits = people_splits(question, size, seed=params.seed, number=number)
        rng = random_stream(params.seed, "subset", question.prompt_id)
        return question_row(splits, own.spellings, rng)

    for split, setting in settings.items():
        rows = answer_rows(answers, questions, row, setting)
        evaluation.summarise(rows, STATISTICS, FLOORS, split)
        evaluation.add_tables("per_prompt", rows.assign(split=split))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
