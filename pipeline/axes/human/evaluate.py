"""Agreement of a model's answers with people's; no model is loaded."""

from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.axes.human.agreement import FLOORS, STATISTICS, question_row
from pipeline.axes.questions.answers import Answers
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.question import Question
from pipeline.axes.questions.sides import Comparison, people_of
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, condition: str, prompts: Path, partitions: list[Path], output: Path) -> None:
    """Write an evaluation directory."""
    questions = people_of(read_questions(prompts), "human", prompts)
    compared = Comparison(run, "human", model, condition, partitions)

    def row(question: Question, answers: Answers, name: str) -> dict[str, Any]:
        size = len(answers.spellings)
        splits = compared.people_splits(question, size, run.params.evaluate.floor_replicates)
        rng = random_stream(run.params.seed, "subset", question.prompt_id)
        return question_row(splits, answers.spellings, question.num_people, rng)

    for split, setting in compared.styles.items():
        rows = compared.rows(questions, setting, row)
        compared.add(rows, STATISTICS, FLOORS, split)
    compared.write(output, pd.concat(compared.tables, ignore_index=True))


if __name__ == "__main__":
    command_line()
