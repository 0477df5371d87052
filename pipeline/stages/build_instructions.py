"""Write the general instructions, from a JSON-lines file or from a data set of the hub, whose commit is recorded."""

from pathlib import Path

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.core.prompts.text import ANCHOR, HELD_OUT
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.prompt_sets import INSTRUCTIONS, read_instructions, recorded_revision


def main(run: StageRun, output: Path, held_out: Path) -> None:
    """Write the instructions of ``prompts.instructions`` that methods may see, and those that are ``held_out``."""
    config = run.params.prompts.instructions
    revision = recorded_revision(run, INSTRUCTIONS, config)
    prompts = read_instructions(config, revision, run.params.seed)
    for path, split in ((output, ANCHOR), (held_out, HELD_OUT)):
        members = [prompt for prompt in prompts if prompt.split == split]
        write_text_prompts(path, members)
        print(f"{split}: {len(members)} instructions")
    run.write_record()


if __name__ == "__main__":
    command_line()
