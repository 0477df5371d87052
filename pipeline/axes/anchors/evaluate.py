"""Divergence from the base checkpoint on held-out instructions, by kind; no model is loaded."""

from pathlib import Path

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import REPLY_DIVERGENCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.anchors.divergence import metric_rows, prompt_sums
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.evaluation_output import write_evaluation


def main(run: StageRun, model: str, condition: str, prompts: list[Path], scores: Path, output: Path) -> None:
    """Write an evaluation directory."""
    kinds = {prompt.prompt_id: prompt.category for prompt in read_text_prompts(*prompts)}
    sums = prompt_sums(read_table(scores, REPLY_DIVERGENCE_COLUMNS), kinds)
    names = {"axis": "anchors", "model": model, "condition": condition}
    replicates = run.params.evaluate.bootstrap_replicates
    rows = metric_rows(sums, seed=run.params.seed, names=tuple(names.values()), replicates=replicates)
    write_evaluation(run, output, metrics=[{**names, **row} for row in rows], failures={}, per_prompt=sums)


if __name__ == "__main__":
    command_line()
