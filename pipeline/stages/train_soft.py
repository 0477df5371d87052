"""Soft-target Calibration Fine-Tuning: match trie next-token distributions by KL (Eq. 3, Algorithm 1)."""

from pathlib import Path

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.tries import open_tries
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.core.training.examples import Example, soft_example
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.adapter_training import ExampleRequest, Target, train_adapter


def soft_target(config: Params, method: str, tries: Path) -> Target:
    """The next-token laws of ``tries``."""
    from pipeline.core.training.objectives import soft_target_loss

    store, soft = open_tries(tries), training_settings(config, method).soft
    reduction = "token" if soft.prefix_weights == "mass" else "completion"

    def make_examples(requests: list[ExampleRequest]) -> list[Example]:
        return [
            soft_example(
                each.prompt_ids, store[each.prompt.prompt_id], each.streams[0], soft.paths_per_prompt, reduction
            )
            for each in requests
        ]

    return Target("soft", soft_target_loss, make_examples, soft.epochs, soft.samples_per_prompt)


def main(run: StageRun, model: str, method: str, model_report: Path, prompts: Path, tries: Path, output: Path) -> None:
    """Write the adapter directory ``output``, trained on the next-token laws of ``tries``."""
    target = soft_target(run.params, method, tries)
    train_adapter(run, model, method, model_report, read_prompts(prompts), lambda tokenizer: [target], output)


if __name__ == "__main__":
    command_line()
