"""Soft-target Calibration Fine-Tuning: match trie next-token distributions by KL (Eq. 3, Algorithm 1)."""

from pathlib import Path

from pipeline.artifacts.storage import open_tries, read_prompts
from pipeline.config.params import load_params
from pipeline.core.training.examples import Example, exact_example, soft_example
from pipeline.core.tries.trie import Trie
from pipeline.dag.launch import run_training_stage
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.stages.adapter_training import ExampleRequest, Training, train_adapter, training_parameters
from pipeline.stages.arguments import add_training, stage_parser


def main(
    params: Path, model: str, model_report: Path, prompts: Path, tries: Path, output: Path, checkpoint: Path
) -> None:
    """Write the adapter directory ``output``; ``checkpoint`` keeps the state of an unfinished run."""
    from pipeline.core.training.objectives import soft_target_loss

    config = load_params(params)
    record = StageRecord("train_soft", training_parameters(config, model, "soft"), [model_report, prompts, tries])
    store, soft = open_tries(tries), config.train.soft

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

    training = Training(
        "soft",
        model,
        model_report,
        read_prompts(prompts),
        soft_target_loss,
        lambda _: lambda requests: [make_example(request) for request in requests],
    )
    train_adapter(config, training, record, output, checkpoint)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_training(parser)
    parser.add_argument("--tries", type=Path, required=True, help="tries of the soft output space")
    run_training_stage(main, parser.parse_args(), "pipeline.stages.train_soft")
