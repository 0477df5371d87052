"""First-step laws of questions: the most probable tokens of each, exact, without sampling."""

from pathlib import Path

from pipeline.artifacts.storage import write_table
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.score_open import first_step_laws


def main(
    run: StageRun, model: str, condition: str, model_report: Path, weights: Path, prompts: list[Path], output: Path
) -> None:
    """Write the first-step laws of the questions."""
    laws = first_step_laws(run, model, condition, model_report, weights, prompts)
    write_table(output, laws)
    run.write_record(num_prompts=len(laws))


if __name__ == "__main__":
    command_line()
