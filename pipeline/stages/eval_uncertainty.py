"""Uncertainty at inference: against people's disagreement, and against right and wrong; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.generations import PARTITION_COLUMNS, SETTING_COLUMN
from pipeline.artifacts.prompts import read_questions
from pipeline.artifacts.scores import FIRST_STEP_COLUMNS
from pipeline.artifacts.storage import read_table, rows_by_prompt
from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.uncertainty_metrics import metric_rows, question_row
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting
from pipeline.stages.evaluation_output import write_evaluation


def main(
    run: StageRun, model: str, condition: str, prompts: Path, partitions: Path, scores: Path, output: Path
) -> None:
    """Write an evaluation directory."""
    questions, seed = read_questions(prompts), run.params.seed
    counts = counts_by_setting(partitions, questions)[DEFAULT_SETTING]
    laws = rows_by_prompt(scores, FIRST_STEP_COLUMNS, list(counts))
    answers = read_table(partitions, PARTITION_COLUMNS)
    answers = answers[answers[SETTING_COLUMN] == DEFAULT_SETTING]
    lengths = answers.groupby("prompt_id")["num_tokens"].mean()
    rows = []
    for question in questions:
        name = question.prompt_id
        law = laws[name].iloc[0]
        rng = random_stream(seed, "ties", name)
        found = law["probabilities"], law["entropy_nats"], int(law["vocabulary"])
        rows.append(question_row(question, counts[name], *found, float(lengths[name]), rng))
    names = {"axis": "uncertainty", "model": model, "condition": condition, "split": "all"}
    per_prompt = pd.DataFrame(rows).assign(split="all")
    replicates = run.params.evaluate.bootstrap_replicates
    found = metric_rows(per_prompt, seed=seed, names=tuple(names.values()), replicates=replicates)
    metrics = [{**names, **row} for row in found]
    write_evaluation(run, output, metrics=metrics, failures={}, per_prompt=per_prompt)


if __name__ == "__main__":
    command_line()
