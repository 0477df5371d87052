"""Write NoveltyBench's prompts, from a JSON-lines file or from a data set of the hub, whose commit is recorded."""

from pathlib import Path

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.prompt_sets import NOVELTY, read_novelty_prompts, recorded_revision


def main(run: StageRun, output: Path) -> None:
    """Write the prompts of ``prompts.novelty``."""
    config = run.params.prompts.novelty
    revision = recorded_revision(run, NOVELTY, config)
    prompts = read_novelty_prompts(config, revision)
    write_text_prompts(output, prompts)
    run.write_record(num_prompts=len(prompts))
    for split in config.splits:
        print(f"{split}: {sum(prompt.split == split for prompt in prompts)} prompts")


if __name__ == "__main__":
    command_line()
