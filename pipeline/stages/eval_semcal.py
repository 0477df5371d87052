"""Semantic calibration: is a model's most frequent class of answers right as often as it is probable?"""

from pathlib import Path

import pandas as pd

from pipeline.axes.questions.artifact import read_questions
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.semantic_calibration import (
    TARGETS,
    metric_rows,
    predictions_of,
    question_row,
    reliability,
)
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting, question_table, split_name
from pipeline.stages.evaluation_output import write_evaluation


def main(
    run: StageRun,
    model: str,
    condition: str,
    prompts: Path,
    partitions: Path,
    base_partitions: Path,
    output: Path,
) -> None:
    """Write an evaluation directory; its table ``reliability`` has the points of reliability diagrams."""
    questions, params = read_questions(prompts), run.params
    seed, evaluate = params.seed, params.evaluate
    own, base = (counts_by_setting(path, questions) for path in (partitions, base_partitions))
    metrics, tables, diagrams = [], [], []
    for setting, counts in own.items():
        names = {"axis": "semcal", "model": model, "condition": condition, "split": split_name(setting)}
        sides = [question_table(questions, found, question_row, seed, "halves") for found in (counts, base[setting])]
        tables.append(sides[0].assign(split=names["split"]))
        for target in TARGETS:
            found, of_base = (
                predictions_of(questions, answers, table, target)
                for answers, table in zip((counts, base[setting]), sides, strict=True)
            )
            rows = metric_rows(
                found,
                of_base,
                target,
                seed=seed,
                names=tuple(names.values()),
                replicates=evaluate.bootstrap_replicates,
                floor_replicates=evaluate.floor_replicates,
            )
            metrics += [{**names, **row} for row in rows]
            if rows:
                points = reliability(found, random_stream(seed, "band", *names.values(), target))
                diagrams.append(points.assign(split=names["split"], target=target))
    write_evaluation(
        run,
        output,
        metrics=metrics,
        failures={},
        per_prompt=pd.concat(tables, ignore_index=True),
        tables={"reliability": pd.concat(diagrams, ignore_index=True)},
    )


if __name__ == "__main__":
    command_line()
