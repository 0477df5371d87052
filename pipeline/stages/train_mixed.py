"""Adapters trained on soft and hard targets together, on targets with anchors, or with the rest of a law held."""

from pathlib import Path

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.prompts import read_prompts, read_text_prompts
from pipeline.artifacts.storage import read_table
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import Replies, Training, train_adapter
from pipeline.stages.train_hard import hard_target
from pipeline.stages.train_soft import soft_target


def main(
    run: StageRun,
    model: str,
    method: str,
    model_report: Path,
    prompts: Path,
    tries: Path,
    hard_targets: Path,
    instructions: Path,
    replies: Path,
    output: Path,
) -> None:
    """Write the adapter directory ``output``; what the method does not train on is not read."""
    made = run.params.methods[method]
    make = {
        "soft": lambda: soft_target(run.params, method, tries),
        "hard": lambda: hard_target(run.params, model, method, hard_targets),
    }
    anchors = None
    if made.anchors is not None:
        anchors = Replies(read_text_prompts(instructions), read_table(replies, GENERATION_COLUMNS))
    targets = [make[name]() for name in made.targets]
    train_adapter(run, Training(model, method, model_report, read_prompts(prompts), targets, anchors), output)


if __name__ == "__main__":
    command_line()
