"""Divergence from the base checkpoint on held-out instructions, by kind; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import REPLY_DIVERGENCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.anchors.divergence import METRIC_NAMES, PER_TOKEN, prompt_sums
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, prompts: list[Path], scores: Path, output: Path) -> None:
    """Write an evaluation: both directions over all instructions (split "all") and over each kind (split KIND)."""
    evaluation, parts = ModelEvaluation(run, "anchors", model), []
    kinds = {prompt.prompt_id: prompt.category for prompt in read_text_prompts(*prompts)}
    for condition, path in evaluation.paths(scores):
        sums = prompt_sums(read_table(path, REPLY_DIVERGENCE_COLUMNS), kinds)
        evaluation.add_table(condition, "per_prompt", sums)
        parts.append(sums.assign(condition=condition))
    table = pd.concat(parts)
    for split in ("all", *dict.fromkeys(table["kind"])):
        members = table if split == "all" else table[table["kind"] == split]
        for direction, metric in METRIC_NAMES.items():
            evaluation.summarise(members[members["direction"] == direction], {metric: PER_TOKEN}, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
