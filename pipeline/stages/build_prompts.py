"""Write the prompts: structured ones of the splits train, unseen and OOD, open-ended and multiple-choice ones."""

from pathlib import Path

from pipeline.artifacts.storage import write_prompts, write_text_prompts
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.core.prompts.multiple_choice import mcq_prompts
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.core.prompts.structured import build_split
from pipeline.stages.arguments import stage_parser


def main(params: Path, output: Path) -> None:
    """Write ``train``, ``unseen``, ``ood``, ``open`` and ``mcq`` (``.parquet``) into ``output``."""
    config = load_params(params)
    wanted = config.prompts
    selections = {"train": "full", "unseen": wanted.unseen_selection, "ood": wanted.ood_selection}
    for split, selection in selections.items():
        prompts = build_split(
            split,
            selection=selection,
            families=wanted.families,
            prompts_per_family=wanted.train_prompts_per_family if split == "train" else None,
            seed=config.seed,
        )
        write_prompts(output / f"{split}.parquet", prompts)
        print(f"{split}: {len(prompts)} prompts, {len({prompt.family for prompt in prompts})} families")
    for axis, requests in {"open": open_prompts(), "mcq": mcq_prompts()}.items():
        write_text_prompts(output / f"{axis}.parquet", requests)
        print(f"{axis}: {len(requests)} prompts")


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory of the Parquet files")
    run_stage(main, parser.parse_args())
