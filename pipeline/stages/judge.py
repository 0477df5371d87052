"""Have other models judge the answers of one model under all conditions, with one load of each judge."""

from pipeline.dag.execution import StageRun, command_line
from pipeline.dag.parts import run_parts


def main(run: StageRun) -> None:
    """Do the parts of the stage that are not done."""
    run_parts(run)


if __name__ == "__main__":
    command_line()
