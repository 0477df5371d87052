"""Tables, figures and the page from whatever evaluations exist; says which are missing."""

from pathlib import Path

from pipeline.dag.execution import StageRun, command_line
from pipeline.report.write import write_report


def main(run: StageRun, evals: list[Path], adapters: list[Path], prompts: list[Path], metrics: Path) -> None:
    """Write the report into the directory of ``metrics``, its file metrics.csv."""
    report = write_report(run.params, evals, prompts, metrics.parent, adapters)
    run.inputs = report.sources
    with run.tracked() as tracking:
        tracking.log(report.headline)
        tracking.table("metrics", report.evaluations.metrics)
        tracking.image("result", metrics.parent / "figures" / "result.png")
        tracking.artifact("report", [metrics, metrics.parent / "tables"])


if __name__ == "__main__":
    command_line()
