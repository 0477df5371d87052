"""Write the prompts: structured ones of the splits train, unseen and OOD, open-ended and multiple-choice ones."""

from pathlib import Path

from pipeline.artifacts.prompts import write_prompts, write_text_prompts
from pipeline.core.prompts.multiple_choice import mcq_prompts
from pipeline.core.prompts.structured import build_split
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.own_laws import own_prompts
from pipeline.sources.prompt_sets import read_open_prompts


def main(run: StageRun, train: Path, unseen: Path, ood: Path, open: Path, mcq: Path) -> None:
    """Write one table of each kind."""
    wanted, seed = run.params.prompts, run.params.seed
    selections = {
        "train": (train, "full"),
        "unseen": (unseen, wanted.unseen_selection),
        "ood": (ood, wanted.ood_selection),
    }
    for split, (output, selection) in selections.items():
        prompts = build_split(
            split,
            selection=selection,
            families=wanted.families,
            prompts_per_family=wanted.train_prompts_per_family if split == "train" else None,
            fresh=split == "train" and wanted.train_parameters == "fresh",
            seed=seed,
        )
        if split == "train":
            prompts += own_prompts(run.params.laws)[0]
        write_prompts(output, prompts)
        print(f"{split}: {len(prompts)} prompts, {len({prompt.family for prompt in prompts})} families")
    for output, requests in ((open, read_open_prompts(wanted.open.source)), (mcq, mcq_prompts())):
        write_text_prompts(output, requests)
        print(f"{output.stem}: {len(requests)} prompts")
    run.write_record()


if __name__ == "__main__":
    command_line()
