"""Sample what all axes ask of one model under one condition, with one load of the model."""

from pipeline.dag.execution import StageRun, command_line
from pipeline.dag.parts import run_parts


def main(run: StageRun) -> None:
    """Do the parts of the stage that are not done."""
    run_parts(run)


if __name__ == "__main__":
    command_line()
