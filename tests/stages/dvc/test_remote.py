"""A remote: what one clone computed and pushed, another pulls, and its tables are the same without a model."""

import filecmp
import functools
import shutil
from pathlib import Path

import pytest

from pipeline.report import write
from pipeline.report.figures.drawing import draw_all
from pipeline.runs.trace import trace_cell
from tests.stages.conftest import run_stage
from tests.stages.dvc.clones import clone_project, copy_code, dvc, run
from tests.stages.preloaded_python import draw_one

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git")

TARGET = "eval-structured@embedded"
ONE_CONDITION = ("conditions=[base]", "generate.ssot.enabled=false")
REPORT = (
    "python",
    "-m",
    "pipeline.stages.report",
    "--evals",
    "artifacts/evals",
    "--prompts",
    "artifacts/prompts/unseen.parquet",
    "artifacts/prompts/ood.parquet",
)


@pytest.fixture(scope="module")
def computed(tmp_path_factory, environment, tiny_model) -> Path:
    """A clone in which one evaluation was run, with its tables; ``dvc.lock`` committed, the cache pushed."""
    clone = clone_project(tmp_path_factory.mktemp("remote") / "first", tiny_model, *ONE_CONDITION)
    copy_code(clone)
    run(clone, environment, "git", "init", "-q")
    dvc(clone, environment, "remote", "add", "-d", "store", "../store")
    run(clone, environment, "git", "add", "-A")
    run(clone, environment, "git", "commit", "-qm", "Code, parameters and the remote")
    dvc(clone, environment, "repro", TARGET)
    # In this process, with one figure; the other clone's is the command's own.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(clone)
        patch.setattr(write, "draw_all", functools.partial(draw_one, draw_all))
        run_stage(Path("params.yaml"), "report")
    run(clone, environment, "git", "add", "dvc.lock")
    run(clone, environment, "git", "commit", "-qm", "Results")
    dvc(clone, environment, "push")
    return clone


@pytest.fixture(scope="module")
def pulled(computed, environment) -> Path:
    """Another clone of the same repository, beside the first, with what the remote has."""
    clone = computed.with_name("second")
    run(computed.parent, environment, "git", "clone", "-q", str(computed), str(clone))
    assert not (clone / "artifacts").exists()
    dvc(clone, environment, "pull", "--allow-missing")
    return clone


@pytest.fixture(scope="module")
def reported(pulled, environment) -> Path:
    """That clone with the tables, made where no model can be opened."""
    (pulled / "pipeline" / "engines" / "loading" / "model.py").write_text(
        "raise AssertionError('a model was opened')\n"
    )
    run(pulled, environment, *REPORT)
    run(pulled, environment, "git", "checkout", "pipeline")
    return pulled


def test_tables_are_the_same_without_a_model(computed, reported):
    names = sorted(path.relative_to(computed) for path in (computed / "reports" / "tables").iterdir())
    names.append(Path("reports/metrics.csv"))
    assert Path("reports/tables/table6.csv") in names
    assert filecmp.cmpfiles(computed, reported, names, shallow=False) == (names, [], [])


def test_nothing_is_to_be_run_again(pulled, environment):
    assert "Running stage" not in dvc(pulled, environment, "repro", "--dry", TARGET)


def test_a_cell_is_traced_in_the_second_clone(computed, reported, environment):
    """Through real records and DVC's own hashes, of files and directories."""
    origin = trace_cell(reported / "reports" / "tables" / "table6.csv", ["wasserstein_1_normalised", "base"], None)
    assert origin.mismatches == [] and origin.comparison[0] == "ok"
    (evaluation,) = origin.evaluations
    assert evaluation.stage == TARGET.partition("@")[0]
    first, *_ = run(computed, environment, "git", "rev-list", "--reverse", "HEAD").split()
    assert evaluation.record["git"]["commit"] == first
    stages = {artifact.stage.partition("@")[0] for artifact in origin.artifacts.values()}
    assert stages >= {
        "build-prompts-structured",
        "check-model",
        "generate-structured",
        "build-tries",
    }
    assert all(artifact.status == "ok" for artifact in origin.artifacts.values())
