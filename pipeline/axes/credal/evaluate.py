"""The sets of a model's laws under several decoding settings: do they hold people's law? No model is loaded."""

import math
from pathlib import Path

from pipeline.axes.credal.sets import FLOORS, SPLITS, STATISTICS, coverage_row, set_row
from pipeline.axes.questions.answers import Answers
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.question import Question
from pipeline.axes.questions.sides import Comparison
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, condition: str, prompts: Path, partitions: list[Path], output: Path) -> None:
    """Write an evaluation directory."""
    questions, seed = read_questions(prompts), run.params.seed
    compared = Comparison(run, "credal", model, condition, partitions)
    settings = (DEFAULT_SETTING, *run.params.generate.questions.settings)

    def row(question: Question, answers: Answers, name: str) -> dict[str, float]:
        members = [compared.answers(name, setting, question) for setting in settings]
        found = set_row([each.labels for each in members])
        if not question.human:
            return {**found, **dict.fromkeys(("distance", "people_distance", "covered"), math.nan)}
        splits = compared.people_splits(question, len(answers.labels), SPLITS, samples=len(members))
        rng = random_stream(seed, "subset", question.prompt_id)
        return {**found, **coverage_row(splits, [each.spellings for each in members], rng)}

    compared.add(compared.rows(questions, DEFAULT_SETTING, row), STATISTICS, FLOORS, "all")
    compared.write(output, compared.tables[0])


if __name__ == "__main__":
    command_line()
