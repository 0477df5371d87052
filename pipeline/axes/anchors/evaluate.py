"""Divergence from the base checkpoint on held-out instructions; no model is loaded."""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.scores import REPLY_DIVERGENCE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.core.statistics.summarise import ratio_of
from pipeline.dag.execution import StageRun, command_line

METRIC_NAMES = {"forward": "anchor_kl_nats", "reverse": "anchor_reverse_kl_nats"}
"""By direction: of the base checkpoint from the model on the base's replies, and the other way round on its own."""
PER_TOKEN = ratio_of("divergence_nats", "num_tokens")
"""By the chain rule a reply's sum is an unbiased estimate of the KL of replies up to where they are cut."""


def prompt_sums(scores: pd.DataFrame) -> pd.DataFrame:
    """Sums over the replies to each instruction: prompt_id, direction, num_tokens, divergence_nats."""
    sums = ["num_tokens", "divergence_nats"]
    return scores.groupby(["prompt_id", "direction"], sort=False, as_index=False)[sums].sum()


def main(run: StageRun, model: str, prompts: list[Path], scores: Path, output: Path) -> None:
    """Write an evaluation: both directions over all instructions (split "all") and over each kind (split KIND)."""
    evaluation, parts = ModelEvaluation(run, "anchors", model), []
    kinds = {prompt.prompt_id: prompt.category for prompt in read_text_prompts(*prompts)}
    for condition, path in evaluation.paths(scores):
        sums = prompt_sums(read_table(path, REPLY_DIVERGENCE_COLUMNS))
        parts.append(sums.assign(kind=sums["prompt_id"].map(kinds), condition=condition))
    table = pd.concat(parts)
    evaluation.add_tables("per_prompt", table)
    for split in ("all", *dict.fromkeys(kinds.values())):
        members = table if split == "all" else table[table["kind"] == split]
        for direction, metric in METRIC_NAMES.items():
            evaluation.summarise(members[members["direction"] == direction], {metric: PER_TOKEN}, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
