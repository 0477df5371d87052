"""Write the requests by which models are evaluated on laws of one's own."""

from collections import Counter
from pathlib import Path

from pipeline.artifacts.prompts import write_prompts
from pipeline.dag.execution import StageRun, command_line
from pipeline.sources.own_laws import own_prompts


def main(run: StageRun, output: Path) -> None:
    """Write the prompts of the axis laws; those that are trained on are in the training table as well."""
    _, prompts = own_prompts(run.params.laws)
    write_prompts(output, prompts)
    run.write_record(num_prompts=len(prompts))
    print(", ".join(f"{split}: {size} requests" for split, size in Counter(p.split for p in prompts).items()))


if __name__ == "__main__":
    command_line()
