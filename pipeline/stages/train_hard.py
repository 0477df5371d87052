"""Hard-target Calibration Fine-Tuning: cross-entropy on sampled strings (Eq. 4, Algorithm 2)."""

from pathlib import Path

from pipeline.artifacts import OutputSpaceStore, read_prompts
from pipeline.command import run_stage
from pipeline.config import load_params
from pipeline.core.training_data import hard_example, sample_string
from pipeline.provenance import StageRecord
from pipeline.stages.adapter_training import train_adapter, training_parameters
from pipeline.stages.arguments import add_training, stage_parser
from pipeline.stages.check_model import model_revision


def main(
    params: Path, model: str, model_report: Path, prompts: Path, output_spaces: Path, output: Path, checkpoint: Path
) -> None:
    """Write the adapter directory ``output``; ``checkpoint`` keeps the state of an unfinished run."""
    from pipeline.core.objectives import hard_target_loss
    from pipeline.engines import chat
    from pipeline.engines.model import load_tokenizer

    config = load_params(params)
    record = StageRecord(
        "train_hard", training_parameters(config, model, "hard"), [model_report, prompts, output_spaces]
    )
    spaces = OutputSpaceStore(output_spaces)
    tokenizer = load_tokenizer(config.model(model), model_revision(model_report))
    terminator = chat.answer_terminator(tokenizer, config.model(model).terminator)

    def make_example(prompt_ids, prompt, rng):
        answer = sample_string(spaces[prompt.prompt_id], rng)
        return hard_example(prompt_ids, [*chat.encode_answers(tokenizer, [answer])[0], terminator])

    train_adapter(
        config, "hard", model, model_report, read_prompts(prompts), hard_target_loss, make_example,
        record, output, checkpoint,
    )  # fmt: skip


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_training(parser)
    parser.add_argument("--output-spaces", type=Path, required=True, help="the hard output space")
    run_stage(main, parser.parse_args())
