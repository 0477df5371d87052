"""The set of a model's laws under several decoding settings: does it hold people's law, and how wide is it?"""

from pathlib import Path

from pipeline.artifacts.prompts import read_questions
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.credal_metrics import metric_rows, question_table
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.answer_classes import counts_by_setting
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
    """Write an evaluation directory."""
    questions, seed = read_questions(prompts), run.params.seed
    names = {"axis": "credal", "model": model, "condition": condition, "split": "all"}
    tables = []
    for path, rng in ((partitions, random_stream(seed, "band", *names.values())), (base_partitions, None)):
        settings = counts_by_setting(path, questions)
        counts = {
            question.prompt_id: [found[question.prompt_id] for found in settings.values()] for question in questions
        }
        tables.append(question_table(questions, counts, rng))
    replicates = run.params.evaluate.bootstrap_replicates
    rows = metric_rows(*tables, seed=seed, names=tuple(names.values()), replicates=replicates)
    metrics = [{**names, **row} for row in rows]
    write_evaluation(run, output, metrics=metrics, failures={}, per_prompt=tables[0].assign(split="all"))


if __name__ == "__main__":
    command_line()
