"""Print what sets of evaluations say of the paper's claims; those that do not fit are left out with the reason."""

import sys
from pathlib import Path

import yaml

from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.errors import ArtifactError, PipelineError
from pipeline.report.claims.declared import ACCURACY_MARGIN, MARGIN
from pipeline.report.claims.table import claims_table, same_prompts
from pipeline.report.evaluations import Evaluations, read_evaluations

MARGINS = {"wasserstein_margin": MARGIN, "accuracy_margin": ACCURACY_MARGIN}


def read_run(directory: Path) -> Evaluations:
    """The evaluations of a directory of results. Raises ArtifactError for none, or for other margins."""
    if not (directory / "evals").is_dir():
        raise ArtifactError("it has no folder evals")
    parameters = directory / "params.yaml"
    margins = yaml.safe_load(parameters.read_text()).get("tests", {}) if parameters.exists() else {}
    for name, margin in MARGINS.items():
        if margins.get(name, margin) != margin:
            raise ArtifactError(f"its tests.{name} is {margins[name]}, that of the claims {margin}")
    return read_evaluations(directory / "evals")


def main(results: list[Path], seed: int) -> None:
    """Raises PipelineError where nothing is left to decide by."""
    runs: dict[str, list[Evaluations]] = {}
    for directory in results:
        try:
            found = read_run(directory)
            for model in dict.fromkeys(found.metrics["model"]):
                same_prompts(runs.get(model, []), found, model)
        except (PipelineError, KeyError, ValueError, OSError) as error:
            print(f"left out: {directory}: {error}", file=sys.stderr)
            continue
        for model in dict.fromkeys(found.metrics["model"]):
            runs.setdefault(model, []).append(found)
    table = claims_table(runs, seed)
    if table is None:
        raise ArtifactError(f"no evaluation that a claim is about in {', '.join(map(str, results))}")
    for claim, effect, verdict, paper in table.rows:
        if claim:
            print(f"{claim}: {verdict} (the paper: {paper})")
        print(f"    {effect}")
    print(f"\n{table.note}")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.report.claims"))
