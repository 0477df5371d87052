"""The real DAG under DVC, in a clone, on the tiny model: from nothing, again, and after one change."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.compose import compose_params, render
from tests.conftest import ROOT, TINY_OVERRIDES

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git")


ENVIRONMENT: dict[str, str] = {}


def command(clone: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(arguments, cwd=clone, env=ENVIRONMENT, capture_output=True, text=True)


def dvc(clone: Path, *arguments: str) -> str:
    result = command(clone, sys.executable, "-m", "dvc", *arguments)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def write_params(clone: Path, tiny_model: Path, *overrides: str) -> None:
    chosen = [*TINY_OVERRIDES, f"models.embedded.checkpoint={tiny_model}", *overrides]
    (clone / "params.yaml").write_text(render(compose_params(clone / "conf", chosen), chosen))


def stages_run(output: str) -> set[str]:
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage ")}


@pytest.fixture(scope="module", autouse=True)
def quick_start(environment):
    """All commands of this module run with the libraries loaded."""
    ENVIRONMENT.update(environment)


@pytest.fixture(scope="module")
def clone(tmp_path_factory, tiny_model):
    clone = tmp_path_factory.mktemp("clone")
    for name in ("conf", "data", "pipeline", ".dvc"):
        shutil.copytree(
            ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "cache", "tmp", "config.local")
        )
    for name in ("dvc.yaml", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, clone / name)
    command(clone, "git", "init", "-q")
    # One seen and one held-out family: every edge of the DAG, in the least time.
    write_params(clone, tiny_model, "prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=4")
    return clone


@pytest.fixture(scope="module")
def first_run(clone):
    return dvc(clone, "repro")


STAGES_BY_CONDITION = (
    *(f"{stage}_structured" for stage in ("generate", "score", "exact", "eval")),
    *(f"{stage}_open" for stage in ("generate", "score", "eval")),
    "generate_mcq",
    "eval_mcq",
    *(f"{stage}_novelty" for stage in ("generate", "partition", "reward", "eval")),
    *(f"{stage}_{axis}" for axis in ("retention", "paloma") for stage in ("score", "eval")),
)
BASELINE_STAGES = [f"{stage}_{axis}_baseline" for stage in ("generate", "eval") for axis in ("structured", "open")]
ALL = {
    "check_params",
    "build_prompts",
    "build_novelty_prompts@novelty",
    "discretize@soft",
    "discretize@hard",
    "check_model@embedded",
    "preflight@embedded",
    "build_tries@embedded-soft",
    "build_tries@embedded-eval",
    "train_soft@embedded",
    "train_hard@embedded",
    "discretize_eval@structured",
    "floor_structured@structured",
    "import_irt@retention",
    "report",
    *(f"{stage}@embedded-{c}" for stage in STAGES_BY_CONDITION for c in ("base", "soft", "hard")),
    *(f"{stage}@embedded-ssot" for stage in BASELINE_STAGES),
}


def test_from_nothing(clone, first_run):
    assert stages_run(first_run) == ALL
    assert (clone / "reports" / "index.html").exists()
    assert not any((clone / "artifacts" / "unfinished").rglob("*.*"))


def test_again_does_nothing(clone, first_run):
    assert stages_run(dvc(clone, "repro")) == set()


def test_axes_that_are_switched_off_and_on_again_run_nothing_that_is_done(clone, first_run, tiny_model):
    base = ("prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=4")
    write_params(clone, tiny_model, *base, "axes=[mcq,retention]")
    assert stages_run(dvc(clone, "repro", "--dry")) == {"check_params", "report"}
    kinds = {name.partition("@")[0] for name in dvc(clone, "stage", "list", "--name-only").split()}
    assert {"import_irt", "eval_mcq"} < kinds
    assert not {"eval_open", "discretize_eval", "build_novelty_prompts", "score_paloma"} & kinds
    assert stages_run(dvc(clone, "repro", "check_params")) == {"check_params"}
    write_params(clone, tiny_model, *base)
    # DVC has forgotten nothing of the stages that were gone while another ran.
    assert stages_run(dvc(clone, "repro")) == set()


def test_a_changed_parameter_runs_only_what_depends_on_it(clone, first_run, tiny_model):
    base = ("prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=4")
    write_params(clone, tiny_model, *base, "evaluate.bootstrap_replicates=101")
    ran = stages_run(dvc(clone, "repro"))
    # A changed metric scores again and samples nothing.
    evaluations = {stage for stage in ALL if stage.startswith("eval_")}
    assert len(evaluations) == 20 and ran == {"check_params", "report", *evaluations}
    write_params(clone, tiny_model, *base, "evaluate.bootstrap_replicates=101", "discretize.hard.max_bins=70")
    status = yaml.safe_load(dvc(clone, "status", "--json"))
    # The report prints the settings (Tables 3 and 4).
    assert set(status) == {"check_params", "discretize@hard", "train_hard@embedded", "report"}
    ran = stages_run(dvc(clone, "repro"))
    hard = {
        "train_hard@embedded",
        *(f"{stage}@embedded-hard" for stage in STAGES_BY_CONDITION),
    }
    assert ran == {"check_params", "discretize@hard", "report", *hard}


def test_hand_edited_params_stop_the_dag(clone, first_run):
    path = clone / "params.yaml"
    before = path.read_text()
    path.write_text(before.replace("paths_per_prompt: 2", "paths_per_prompt: 3"))
    result = command(clone, sys.executable, "-m", "dvc", "repro")
    path.write_text(before)
    assert result.returncode != 0
    assert "error: params.yaml: evaluate.paths_per_prompt is not what conf/ composes to" in result.stderr


def test_a_failing_stage_leaves_finished_artifacts(clone, first_run, tiny_model, tmp_path):
    broken = tmp_path / "model"
    shutil.copytree(tiny_model, broken)
    (broken / "model.safetensors").unlink()
    adapter = clone / "artifacts" / "adapters" / "embedded" / "soft" / "adapter_model.safetensors"
    before, params = adapter.read_bytes(), (clone / "params.yaml").read_text()
    base = ("prompts.families=[gaussian,bernoulli]", "prompts.train_prompts_per_family=4")
    write_params(clone, broken, *base)
    result = command(clone, sys.executable, "-m", "dvc", "repro")
    assert result.returncode != 0
    assert f"error: checkpoint {broken} has no model.safetensors or model.safetensors.index.json" in result.stderr
    # A failure inside the training stage itself: the file goes missing after the check.
    (clone / "params.yaml").write_text(params.replace("lora_rank: 16", "lora_rank: 8"))
    tries = clone / "artifacts" / "tries" / "embedded" / "soft" / "edge_tokens.npy"
    content = tries.read_bytes()
    tries.write_bytes(content[:-4])
    result = command(clone, sys.executable, "-m", "dvc", "repro", "--single-item", "train_soft@embedded")
    tries.write_bytes(content)
    (clone / "params.yaml").write_text(params)
    assert result.returncode != 0 and "edge_tokens.npy has" in result.stderr
    assert adapter.read_bytes() == before


def test_dag_is_drawn(clone):
    drawn = dvc(clone, "dag", "--mermaid")
    assert "train_soft@embedded" in drawn and "report" in drawn
    assert (ROOT / ".dvc" / "config").read_text().split() == ["[core]", "analytics", "=", "false"]
