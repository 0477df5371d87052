"""How well a model's summaries carry the distribution of its answers; no model is loaded."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.scores import WORD_DISTANCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.questions.question import read_questions
from pipeline.axes.selfreflect.summaries import SUMMARIES
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line

STATISTICS = {f"selfreflect_{name}": mean_of(name) for name in (*SUMMARIES, "gain", "told_apart")}
FLOORS = {"selfreflect_sampled": "perfect", "selfreflect_direct": "perfect"}


def question_table(questions: Sequence[str], distances: pd.DataFrame) -> pd.DataFrame:
    """The mean distance of each question under each summary, of rows of prompt_id, summary and distance; gain is direct
    less sampled, told_apart is null less perfect: whether the judge reads at all."""
    means = distances.groupby(["prompt_id", "summary"])["distance"].mean().unstack("summary")
    table = means.reindex(index=list(questions), columns=list(SUMMARIES)).rename_axis("prompt_id").reset_index()
    gain, told_apart = table["direct"] - table["sampled"], table["null"] - table["perfect"]
    return table.assign(gain=gain, told_apart=told_apart)


def main(run: StageRun, model: str, prompts: Path, scores: Path, output: Path) -> None:
    evaluation = ModelEvaluation(run, "selfreflect", model)
    questions = [question.prompt_id for question in read_questions(prompts)]
    tables = [
        question_table(questions, read_table(path, WORD_DISTANCE_COLUMNS)).assign(condition=name)
        for name, path in evaluation.paths(scores)
    ]
    rows = pd.concat(tables)
    evaluation.summarise(rows, STATISTICS, FLOORS)
    evaluation.add_tables("per_prompt", rows.assign(split="all"))
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
