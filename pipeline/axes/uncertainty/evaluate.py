"""Uncertainty at inference: against people's disagreement, and against right and wrong; no model is loaded."""

from pathlib import Path

import numpy as np

from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.answers import Answers, answer_rows, read_partition
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.question import Question
from pipeline.axes.uncertainty.alignment import adjusted_p_values
from pipeline.axes.uncertainty.measures import MEASURES
from pipeline.axes.uncertainty.question import people_ceiling, people_statistics, question_row, right_statistics
from pipeline.axes.uncertainty.score import QUESTION_STEP_COLUMNS
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: Path, partitions: Path, scores: Path, output: Path) -> None:
    """Write an evaluation."""
    questions, seed, evaluation = read_questions(prompts), run.params.seed, ModelEvaluation(run, "uncertainty", model)
    answers = {name: read_partition(path, questions) for name, path in evaluation.paths(partitions)}
    laws = {
        name: read_table(path, QUESTION_STEP_COLUMNS).set_index("prompt_id").to_dict("index")
        for name, path in evaluation.paths(scores)
    }

    def row(question: Question, own: Answers, condition: str) -> dict[str, float]:
        # A model whose probabilities are not known has no row: measures that need them are left out.
        law = laws[condition].get(question.prompt_id)
        return question_row(question, own, law, random_stream(seed, "ties", question.prompt_id))

    rows = answer_rows(answers, questions, row)
    if asked := [question for question in questions if question.human]:
        evaluation.summarise(rows, people_statistics(), stream=["people"])
        ceiling = people_ceiling(asked, random_stream(seed, "halves"))
        for condition, own in rows[np.isfinite(rows["people_entropy"])].groupby("condition"):
            adjusted = adjusted_p_values(
                {name: own[name].to_numpy() for name in MEASURES},
                own["people_entropy"].to_numpy(),
                own["options"].to_numpy(),
                replicates=run.params.evaluate.bootstrap_replicates,
                rng=random_stream(seed, "permutations", model, condition),
            )
            values = {"ceiling": ceiling, **{f"{name}_p": value for name, value in adjusted.items()}}
            for name, value in values.items():
                evaluation.add_value(condition, f"uncertainty_{name}", value, len(asked))
    if np.isfinite(rows["right"]).any():
        evaluation.summarise(rows, right_statistics(), stream=["right"])
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    for condition, own in rows.groupby("condition"):
        if without := [name for name in MEASURES if not np.isfinite(own[name]).any()]:
            print(f"{run.title}: {condition} has nothing to compute from and leaves out {', '.join(without)}")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
