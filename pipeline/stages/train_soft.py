"""Soft-target Calibration Fine-Tuning: match trie next-token distributions by KL (Eq. 3, Algorithm 1)."""

from pathlib import Path

from pipeline.artifacts.prompts import read_prompts
from pipeline.artifacts.tries import open_tries
from pipeline.config.conditions import training_settings
from pipeline.config.params import Params
from pipeline.core.training.examples import Example, exact_example, soft_example
from pipeline.core.tries.trie import Trie
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ConfigError
from pipeline.stages.adapter_training import ExampleRequest, Target, train_adapter


def soft_target(config: Params, method: str, tries: Path) -> Target:
    """The next-token laws of ``tries``."""
    from pipeline.core.training.objectives import soft_target_loss

    store, soft = open_tries(tries), training_settings(config, method).soft

    def make_example(request: ExampleRequest) -> Example:
        trie = store[request.prompt.prompt_id]
        if soft.estimator != "exact":
            paths = soft.paths_per_prompt if soft.estimator == "paths" else 1
            return soft_example(request.prompt_ids, trie, request.streams[0], paths)
        if not isinstance(trie, Trie):
            raise ConfigError(
                "train.soft.estimator: exact needs explicit tries, and those of the soft output space are implicit; "
                "'path' or 'paths' are allowed here"
            )
        return exact_example(request.prompt_ids, trie)

    def open_target(_):
        return lambda requests: list(map(make_example, requests))

    return Target("soft", soft_target_loss, open_target, soft.epochs, soft.samples_per_prompt)


def main(run: StageRun, model: str, method: str, model_report: Path, prompts: Path, tries: Path, output: Path) -> None:
    """Write the adapter directory ``output``, trained on the next-token laws of ``tries``."""
    train_adapter(
        run, model, method, model_report, read_prompts(prompts), [soft_target(run.params, method, tries)], output
    )


if __name__ == "__main__":
    command_line()
