"""A remote: what one clone computed and pushed, another pulls, and its tables are the same without a model."""

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.compose import compose_params, render
from pipeline.record.trace import trace_cell
from tests.conftest import ROOT, TINY_OVERRIDES

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git")

TARGET = "eval_structured@embedded-base"
FEW_PROMPTS = ("prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=4")
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


def run(environment: dict, clone: Path, *arguments: str) -> str:
    result = subprocess.run(arguments, cwd=clone, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments}: {result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def dvc(environment: dict, clone: Path, *arguments: str) -> str:
    return run(environment, clone, sys.executable, "-m", "dvc", *arguments)


@pytest.fixture(scope="module")
def computed(tmp_path_factory, environment, tiny_model) -> Path:
    """A clone in which one evaluation was run, with its tables; ``dvc.lock`` committed, the cache pushed."""
    clone = tmp_path_factory.mktemp("remote") / "first"
    clone.mkdir()
    for name in ("conf", "data", "pipeline", ".dvc"):
        shutil.copytree(
            ROOT / name,
            clone / name,
            ignore=shutil.ignore_patterns("__pycache__", "cache", "tmp", "config.local"),
            dirs_exist_ok=True,
        )
    for name in ("dvc.yaml", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, clone / name)
    chosen = [*TINY_OVERRIDES, f"models.embedded.checkpoint={tiny_model}", *FEW_PROMPTS]
    (clone / "params.yaml").write_text(render(compose_params(clone / "conf", chosen), chosen))
    run(environment, clone, "git", "init", "-q")
    dvc(environment, clone, "remote", "add", "-d", "store", "../store")
    run(environment, clone, "git", "add", "-A")
    run(environment, clone, "git", "commit", "-qm", "Code, parameters and the remote")
    dvc(environment, clone, "repro", TARGET)
    run(environment, clone, *REPORT)
    run(environment, clone, "git", "add", "dvc.lock")
    run(environment, clone, "git", "commit", "-qm", "Results")
    dvc(environment, clone, "push")
    return clone


@pytest.fixture(scope="module")
def pulled(computed, environment) -> Path:
    """Another clone of the same repository, beside the first, with what the remote has."""
    clone = computed.with_name("second")
    run(environment, computed.parent, "git", "clone", "-q", str(computed), str(clone))
    assert not (clone / "artifacts").exists()
    dvc(environment, clone, "pull", "--allow-missing")
    return clone


def test_the_lock_is_committed_and_artifacts_are_not(computed, environment):
    tracked = run(environment, computed, "git", "ls-files").splitlines()
    assert "dvc.lock" in tracked and not any(path.startswith(("artifacts/", "reports/", "wandb/")) for path in tracked)
    # The headline numbers are all else that there is to commit: `dvc metrics diff` compares them between commits.
    untracked = run(environment, computed, "git", "status", "--porcelain", "--untracked-files=all")
    assert untracked.split() == ["??", "reports/metrics.json"]


def test_tables_are_the_same_without_a_model(computed, pulled, environment):
    (pulled / "pipeline" / "engines" / "model.py").write_text("raise AssertionError('a model was opened')\n")
    run(environment, pulled, *REPORT)
    run(environment, pulled, "git", "checkout", "pipeline")
    names = sorted(path.relative_to(computed) for path in (computed / "reports" / "tables").iterdir())
    names.append(Path("reports/metrics.csv"))
    assert Path("reports/tables/table6.csv") in names
    assert filecmp.cmpfiles(computed, pulled, names, shallow=False) == (names, [], [])
    assert sorted(path.name for path in (pulled / "reports" / "tables").iterdir()) == [
        path.name for path in names if path.parent.name == "tables"
    ]


def test_nothing_is_to_be_run_again(pulled, environment):
    assert "Running stage" not in dvc(environment, pulled, "repro", "--dry", TARGET)


def test_a_cell_is_traced_in_the_second_clone(computed, pulled, environment):
    """Through real records and DVC's own hashes, of files and directories."""
    run(environment, pulled, *REPORT)
    origin = trace_cell(pulled / "reports" / "tables" / "table6.csv", ["wasserstein_1_normalised", "base"], None)
    assert origin.mismatches == [] and origin.comparison[0] == "ok"
    (evaluation,) = origin.evaluations
    assert evaluation.stage == TARGET
    first, *_ = run(environment, computed, "git", "rev-list", "--reverse", "HEAD").split()
    assert evaluation.commit == first
    stages = {artifact.stage for artifact in origin.artifacts.values()}
    assert stages >= {
        "build_prompts",
        "check_model@embedded",
        "generate_structured@embedded-base",
        "floor_structured@structured",
        "build_tries@embedded-eval",
    }
    assert all(artifact.status == "ok" for artifact in origin.artifacts.values())
