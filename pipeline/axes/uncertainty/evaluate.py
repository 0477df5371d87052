"""Uncertainty at inference: against people's disagreement, and against right and wrong; no model is loaded."""

from pathlib import Path

import numpy as np

from pipeline.artifacts.storage import read_table
from pipeline.axes.questions.answers import Answers
from pipeline.axes.questions.artifact import read_questions
from pipeline.axes.questions.question import Question
from pipeline.axes.questions.sides import Comparison
from pipeline.axes.uncertainty.alignment import adjusted_p_values
from pipeline.axes.uncertainty.measures import MEASURES
from pipeline.axes.uncertainty.question import people_ceiling, people_statistics, question_row, right_statistics
from pipeline.axes.uncertainty.score import QUESTION_STEP_COLUMNS
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.config.params import BASE
from pipeline.core.random_streams import random_stream
from pipeline.dag.execution import StageRun, command_line


def main(
    run: StageRun, model: str, condition: str, prompts: Path, partitions: list[Path], scores: list[Path], output: Path
) -> None:
    """Write an evaluation directory."""
    questions, seed = read_questions(prompts), run.params.seed
    compared = Comparison(run, "uncertainty", model, condition, partitions)
    laws = {
        name: read_table(path, QUESTION_STEP_COLUMNS).set_index("prompt_id").to_dict("index")
        for name, path in zip((BASE, condition), reversed(scores), strict=True)
    }

    def row(question: Question, answers: Answers, name: str) -> dict[str, float]:
        # A model whose probabilities are not known has no row: measures that need them are left out.
        law = laws[name].get(question.prompt_id)
        return question_row(question, answers, law, random_stream(seed, "ties", question.prompt_id))

    rows = compared.rows(questions, DEFAULT_SETTING, row)
    own, asked = compared.own(rows), [question for question in questions if question.human]
    if asked:
        compared.add(rows, people_statistics(), {}, "all", "people")
        table = own[np.isfinite(own["people_entropy"])]
        ceiling = people_ceiling(asked, random_stream(seed, "halves"))
        adjusted = adjusted_p_values(
            {name: table[name].to_numpy() for name in MEASURES},
            table["people_entropy"].to_numpy(),
            table["options"].to_numpy(),
            replicates=run.params.evaluate.bootstrap_replicates,
            rng=random_stream(seed, "permutations", model, condition),
        )
        values = {"ceiling": ceiling, **{f"{name}_p": value for name, value in adjusted.items()}}
        compared.add_values({f"uncertainty_{name}": value for name, value in values.items()}, len(asked))
    if np.isfinite(own["right"]).any():
        compared.add(rows, right_statistics(), {}, "all", "right")
    if without := [name for name in MEASURES if not np.isfinite(own[name]).any()]:
        print(f"{run.title}: left out, as there is nothing to compute them from: {', '.join(without)}")
    compared.write(output, own.assign(split="all"))


if __name__ == "__main__":
    command_line()
