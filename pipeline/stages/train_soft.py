"""Soft-target Calibration Fine-Tuning: match trie next-token distributions by KL (Eq. 3, Algorithm 1)."""

from pathlib import Path

from pipeline.artifacts import TrieStore, read_prompts
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.training_data import soft_example
from pipeline.provenance import StageRecord
from pipeline.stages.adapter_training import train_adapter, training_parameters
from pipeline.stages.arguments import add_training, stage_parser


def main(
    params: Path, model: str, model_report: Path, prompts: Path, tries: Path, output: Path, checkpoint: Path
) -> None:
    """Write the adapter directory ``output``; ``checkpoint`` keeps the state of an unfinished run."""
    from pipeline.core.objectives import soft_target_loss

    config = load_params(params)
    record = StageRecord("train_soft", training_parameters(config, model, "soft"), [model_report, prompts, tries])
    store = TrieStore(tries)
    train_adapter(
        config, "soft", model, model_report, read_prompts(prompts), soft_target_loss,
        lambda prompt_ids, prompt, rng: soft_example(prompt_ids, store[prompt.prompt_id], rng),
        record, output, checkpoint,
    )  # fmt: skip


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_training(parser)
    parser.add_argument("--tries", type=Path, required=True, help="tries of the soft output space")
    run_stage(main, parser.parse_args())
