"""The real DAG under DVC, in a clone, on the tiny model: from nothing, again, and after one change."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline import axes
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph
from pipeline.dag.stage_kinds import evaluation_name
from tests.conftest import ROOT
from tests.stages.dvc import clones
from tests.stages.dvc.clones import clone_project, copy_code, insert_statement, write_params

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git"), pytest.mark.slow]


AXES = "axes=[structured,mcq]"
ENVIRONMENT: dict[str, str] = {}


def command(clone: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(arguments, cwd=clone, env=ENVIRONMENT, capture_output=True, text=True)


DVC = (sys.executable, "-m", "dvc")


def dvc(clone: Path, *arguments: str) -> str:
    return clones.run(clone, ENVIRONMENT, *DVC, *arguments)


def stages_run(output: str) -> set[str]:
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage ")}


@pytest.fixture(scope="module", autouse=True)
def quick_start(environment):
    """All commands of this module run with the libraries loaded."""
    ENVIRONMENT.update(environment)


@pytest.fixture(scope="module")
def clone(tmp_path_factory, tiny_model):
    """Two axes, for time; all are run by ``make demo`` and by the commands in ``test_kill``."""
    clone = clone_project(tmp_path_factory.mktemp("clone") / "project", tiny_model, AXES)
    command(clone, "git", "init", "-q")
    return clone


@pytest.fixture(scope="module")
def first_run(clone):
    return dvc(clone, "repro")


def test_from_nothing(clone, first_run):
    assert stages_run(first_run) == set(StageGraph(load_params(clone / "params.yaml")))
    # An axis that is off says so, and how to switch it on.
    assert 'eval-laws embedded: the axis laws is off; `make params OVERRIDES="axes=[structured,mcq,laws]"`' in first_run
    assert (clone / "artifacts" / "evals" / "laws" / "embedded" / "unavailable.json").exists()
    assert (clone / "reports" / "index.html").exists()
    assert not any((clone / "artifacts" / "unfinished").rglob("*.*"))


OF_ALL_AXES = ("build-prompts", "generate", "score", "judge", "import-irt")


def test_axes_that_are_switched_off_and_on_again_compute_nothing_that_is_done(clone, first_run, tiny_model):
    """Stages of all axes look at what there is, and keep it."""
    adapters_and_answers = (*clone.glob("artifacts/adapters/*/*/*"), *clone.glob("artifacts/generations/*/*/*.parquet"))
    before = {path: path.stat().st_mtime_ns for path in adapters_and_answers if path.is_file()}
    write_params(clone, tiny_model, "axes=[mcq]")
    off = stages_run(dvc(clone, "repro", "--dry"))
    assert {"check-params", "report"} < off
    assert all(name.startswith(OF_ALL_AXES) for name in off - {"check-params", "report"})
    assert stages_run(dvc(clone, "repro", "check-params")) == {"check-params"}
    write_params(clone, tiny_model, AXES)
    # DVC has forgotten nothing of the stages that were gone while another ran.
    assert all(name.startswith(OF_ALL_AXES) for name in stages_run(dvc(clone, "repro")))
    assert before and {path: path.stat().st_mtime_ns for path in before} == before


def test_a_changed_parameter_runs_only_what_depends_on_it(clone, first_run, tiny_model):
    write_params(clone, tiny_model, AXES, "evaluate.bootstrap_replicates=101")
    # A changed metric scores again and samples nothing.
    evaluations = {f"{evaluation_name(axis)}@embedded" for axis in axes.AXES}
    assert stages_run(dvc(clone, "repro", "--dry")) == {"check-params", "report", *evaluations}
    write_params(clone, tiny_model, AXES, "discretize.hard.max_bins=70")
    status = yaml.safe_load(dvc(clone, "status", "--json"))
    # The report prints the settings (Tables 3 and 4).
    assert set(status) == {"check-params", "discretize@hard", "train-hard@embedded", "report"}
    assert stages_run(dvc(clone, "repro", "--single-item", "discretize@hard")) == {"discretize@hard"}
    # What it wrote differs, and so its trainings wait; the other method's do not.
    trainings = yaml.safe_load(dvc(clone, "status", "--json", "train-hard@embedded", "train-soft@embedded"))
    assert set(trainings) == {"train-hard@embedded"} and "changed deps" in str(trainings)


def test_code_that_changed_since_it_was_recorded_stops_the_dag(clone, first_run):
    copy_code(clone)
    insert_statement(clone / "pipeline" / "axes" / "structured" / "evaluate.py", "main")
    result = command(clone, *DVC, "repro")
    shutil.rmtree(clone / "pipeline")
    (clone / "pipeline").symlink_to(ROOT / "pipeline")
    assert result.returncode != 0 and "code.yaml: eval-structured: the stage's code computes" in result.stderr
    assert stages_run(result.stdout) == {"check-params"}
