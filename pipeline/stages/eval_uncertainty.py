"""Uncertainty at inference: against people's disagreement, and against right and wrong; no model is loaded."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.axes.questions.artifact import read_questions
from pipeline.artifacts.scores import QUESTION_STEP_COLUMNS
from pipeline.artifacts.storage import rows_by_prompt
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.axes.questions.question import Question
from pipeline.core.semantics.uncertainty_metrics import metric_rows, question_row
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting, default_answers
from pipeline.stages.evaluation_output import write_evaluation


def _question_table(questions: Sequence[Question], partitions: Path, scores: Path, seed: int) -> pd.DataFrame:
    """A row of ``question_row`` for each question, under the default decoding setting."""
    counts = counts_by_setting(partitions, questions)[DEFAULT_SETTING]
    laws = rows_by_prompt(scores, QUESTION_STEP_COLUMNS, list(counts))
    by_question = default_answers(partitions, questions)
    rows = []
    for question in questions:
        name = question.prompt_id
        law, own = laws[name].iloc[0], by_question[name]
        first = law["probabilities"], law["entropy_nats"], int(law["vocabulary"]), law["choice_probabilities"]
        length, rng = float(own["num_tokens"].mean()), random_stream(seed, "ties", name)
        rows.append(
            question_row(question, counts[name], own["answer"].tolist(), *first, law["step_means"], length, rng)
        )
    return pd.DataFrame(rows)


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    partitions: Path,
    base_partitions: Path,
    scores: Path,
    base_scores: Path,
    output: Path,
) -> None:
    """Write an evaluation directory."""
    questions, seed = read_questions(prompts), run.params.seed
    own, base = (
        _question_table(questions, *paths, seed) for paths in ((partitions, scores), (base_partitions, base_scores))
    )
    names = {"axis": "uncertainty", "model": model, "condition": condition, "split": "all"}
    replicates = run.params.evaluate.bootstrap_replicates
    found = metric_rows(own, base, seed=seed, names=tuple(names.values()), replicates=replicates)
    metrics = [{**names, **row} for row in found]
    write_evaluation(run, output, metrics=metrics, failures={}, per_prompt=own.assign(split="all"))


if __name__ == "__main__":
    command_line()
