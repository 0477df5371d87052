"""Write NoveltyBench's prompts, from a JSON-lines file or from a data set of the hub, whose commit is recorded."""

from pathlib import Path

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.novelty_prompts import local_files, pinned_revision, read_dataset, read_files, select_prompts


def main(run: StageRun, output: Path) -> None:
    """Write the prompts of ``prompts.novelty``."""
    config = run.params.prompts.novelty
    files = local_files(config)
    revision = None if files else pinned_revision(config.source, config.revision)
    run.record.add(revision=revision)
    rows = read_files(config.source, files) if files else read_dataset(config.source, revision, config.splits)
    prompts = select_prompts(config, rows)
    write_text_prompts(output, prompts)
    run.write_record(num_prompts=len(prompts))
    for split in config.splits:
        print(f"{split}: {sum(prompt.split == split for prompt in prompts)} prompts")


if __name__ == "__main__":
    command_line()
