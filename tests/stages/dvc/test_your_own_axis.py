"""The axis of docs/your_own_axis.md, taken from that page into a copy of the code and run."""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.conftest import ROOT
from tests.stages.dvc.clones import clone_project, copy_code, run

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git"), pytest.mark.slow]

PAGE = ROOT / "docs" / "your_own_axis.md"
MODULES = ("__init__", "stages", "build", "evaluate", "metrics", "report")
AXES = "axes=[mcq,coin_flips]"


def code_blocks(language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def add_lines(dvc_file: Path) -> None:
    """Put the page's lines into dvc.yaml: beside what a stage has, or as a stage of their own."""
    content = yaml.safe_load(dvc_file.read_text())
    (added,) = map(yaml.safe_load, code_blocks("yaml"))
    for name, entry in added.items():
        there = content["stages"].setdefault(name, entry)
        if there is not entry:
            work = there.get("do", there)
            for key, values in entry.items():
                work[key] = [*work[key], *values]
    dvc_file.write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_model, environment) -> Path:
    """A project with that axis, in which it was run beside another."""
    project = clone_project(tmp_path_factory.mktemp("own") / "project", tiny_model, "axes=[mcq]")
    copy_code(project)
    folder = project / "pipeline" / "axes" / "coin_flips"
    folder.mkdir()
    for name, text in zip(MODULES, code_blocks(), strict=True):
        (folder / f"{name}.py").write_text(text)
    add_lines(project / "dvc.yaml")
    header = next(line for line in (project / "params.yaml").read_text().splitlines() if "overrides:" in line)
    overrides = header.partition("overrides: ")[2].replace("'axes=[mcq]'", "").replace("axes=[mcq]", "")
    composed = [f"generate.ssot.enabled=false {overrides}", f"'{AXES}'"]
    run(project, environment, "bash", "-c", f"python -m pipeline.compose {' '.join(composed)}")
    run(project, environment, "git", "init", "-q")
    run(project, environment, sys.executable, "-m", "dvc", "repro", "eval-coin-flips", "eval-mcq")
    run(project, environment, sys.executable, "-m", "pipeline.stages.report")
    return project


def test_its_number_its_table_and_the_page(project):
    metrics = pd.read_csv(project / "reports" / "metrics.csv", keep_default_na=False)
    own = metrics[metrics["axis"] == "coin_flips"]
    assert set(own["metric"]) == {"coin_bias"} and set(own["condition"]) == {"base", "soft", "hard"}
    table = (project / "reports" / "tables" / "coin_flips.md").read_text()
    assert "Bias of coin flips" in table and "hard" in table
    page = (project / "reports" / "index.html").read_text()
    assert "Coin flips" in page and "Are coin flips fair?" in page
