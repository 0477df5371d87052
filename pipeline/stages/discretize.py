"""Discretise each prompt's law into canonical number strings with probabilities (Appendix B.1)."""

from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from pipeline.artifacts.output_spaces import write_output_spaces
from pipeline.artifacts.prompts import read_prompts
from pipeline.core.laws.discretize import discretize_all
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, space: str, prompts: list[Path], output: Path) -> None:
    """Write the output space of every prompt in ``prompts`` under the settings named ``space``."""
    rows = read_prompts(*prompts)
    made = discretize_all([prompt.law for prompt in rows], **asdict(getattr(run.params.discretize, space)))
    progress = tqdm(zip(rows, made, strict=True), total=len(rows), desc=f"discretize {space}", unit="prompt")
    write_output_spaces(output, {prompt.prompt_id: space for prompt, space in progress})
    run.write_record(num_prompts=len(rows))


if __name__ == "__main__":
    command_line()
