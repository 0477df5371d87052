"""The real DAG under DVC, in a clone, on the tiny model: from nothing, again, and after one change."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.config.params import load_params
from pipeline.dag.code_digest import EXEMPT, engines_besides
from pipeline.dag.graph import StageGraph
from tests.conftest import ROOT
from tests.dag.walk import Walk
from tests.stages import clones
from tests.stages.clones import clone_project, write_params

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git"), pytest.mark.slow]


ENVIRONMENT: dict[str, str] = {}


def command(clone: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(arguments, cwd=clone, env=ENVIRONMENT, capture_output=True, text=True)


def dvc(clone: Path, *arguments: str) -> str:
    return clones.dvc(clone, ENVIRONMENT, *arguments)


def stages_run(output: str) -> set[str]:
    return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage ")}


@pytest.fixture(scope="module", autouse=True)
def quick_start(environment):
    """All commands of this module run with the libraries loaded."""
    ENVIRONMENT.update(environment)


@pytest.fixture(scope="module")
def clone(tmp_path_factory, tiny_model):
    clone = clone_project(tmp_path_factory.mktemp("clone") / "project", tiny_model)
    command(clone, "git", "init", "-q")
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
    write_params(clone, tiny_model, "axes=[mcq,retention]")
    assert stages_run(dvc(clone, "repro", "--dry")) == {"check_params", "report"}
    kinds = {name.partition("@")[0] for name in dvc(clone, "stage", "list", "--name-only").split()}
    assert {"import_irt", "eval_mcq"} < kinds
    assert not {"eval_open", "discretize_eval", "build_novelty_prompts", "score_paloma"} & kinds
    assert stages_run(dvc(clone, "repro", "check_params")) == {"check_params"}
    write_params(clone, tiny_model)
    # DVC has forgotten nothing of the stages that were gone while another ran.
    assert stages_run(dvc(clone, "repro")) == set()


def test_a_changed_parameter_runs_only_what_depends_on_it(clone, first_run, tiny_model):
    write_params(clone, tiny_model, "evaluate.bootstrap_replicates=101")
    ran = stages_run(dvc(clone, "repro"))
    # A changed metric scores again and samples nothing.
    evaluations = {stage for stage in ALL if stage.startswith("eval_")}
    assert len(evaluations) == 20 and ran == {"check_params", "report", *evaluations}
    write_params(clone, tiny_model, "evaluate.bootstrap_replicates=101", "discretize.hard.max_bins=70")
    status = yaml.safe_load(dvc(clone, "status", "--json"))
    # The report prints the settings (Tables 3 and 4).
    assert set(status) == {"check_params", "discretize@hard", "train_hard@embedded", "report"}
    ran = stages_run(dvc(clone, "repro"))
    hard = {
        "train_hard@embedded",
        *(f"{stage}@embedded-hard" for stage in STAGES_BY_CONDITION),
    }
    assert ran == {"check_params", "discretize@hard", "report", *hard}


# A definition of each of these files is edited; what must not be run again for it, whatever the walk says.
NO_SAMPLING = ("generate_", "train_", "score_", "exact_", "build_", "discretize")
EDITED = {
    "core/laws/quantiles.py": ("quantile", ("train_", "generate_mcq", "score_paloma")),
    "core/random_streams.py": ("stream_seed", ("discretize", "score_")),
    "core/structured/wasserstein.py": ("wasserstein_1", NO_SAMPLING),
    "core/language/multiple_choice.py": ("total_variation", NO_SAMPLING),
    "core/retention/perplexity.py": ("bits_per_byte", NO_SAMPLING),
    "core/retention/accuracy.py": ("column_result", NO_SAMPLING),
    "core/statistics/paired_tests.py": ("holm", NO_SAMPLING),
    "core/tries/trie.py": ("build_tries", ("generate_", "score_paloma", "train_hard")),
    "core/training/objectives.py": ("soft_target_loss", ("generate_", "exact_", "build_")),
    "core/sampling.py": ("sample_tokens", ("train_", "score_", "exact_", "eval_")),
    "engines/loading/conditioned_model.py": ("open_model", ("train_", "eval_", "build_")),
    "engines/loading/model.py": ("load_model", ("eval_", "build_", "discretize")),
    "engines/judges/pair_scorer.py": ("scores", ("generate_", "train_", "score_", "exact_")),
    "engines/training/fit.py": ("backward_pass", ("generate_", "score_", "eval_")),
    "artifacts/generations.py": ("read_answers", ("train_", "score_paloma", "generate_")),
    "report/tables/seeds.py": ("paired_t_interval", (*NO_SAMPLING, "eval_", "reward_", "partition_")),
}


def edit(path: Path, name: str) -> None:
    """Put a statement at the start of a function."""
    text = path.read_text()
    definition = next(node for node in ast.walk(ast.parse(text)) if getattr(node, "name", None) == name)
    # Behind the docstring, which every public function has.
    line, lines = definition.body[1].lineno - 1, text.splitlines()
    lines.insert(line, " " * definition.body[1].col_offset + "edited = 0")
    path.write_text("\n".join(lines) + "\n")


def stale(clone: Path) -> set[str]:
    """Stages that DVC would run after the derived files are written anew."""
    clones.run(clone, ENVIRONMENT, "python", "-m", "pipeline.compose", "--recorded")
    return set(yaml.safe_load(dvc(clone, "status", "--json")))


def top_level_name(path: Path, name: str) -> str:
    """The definition of a module that holds a function: itself, or its class."""
    for statement in ast.parse(path.read_text()).body:
        if any(getattr(node, "name", None) == name for node in ast.walk(statement)):
            return statement.name
    raise LookupError(f"{path} defines no {name}")


@pytest.fixture(scope="module")
def reached(clone) -> dict[str, set[tuple[str, str]]]:
    """The definitions behind each stage by its name in DVC, by a walk over compiled code."""
    walk, graph = Walk(), StageGraph(load_params(clone / "params.yaml"))
    exempt = (*EXEMPT, *engines_besides("transformers"))
    by_entry = {entry: walk.reach(entry, exempt) for entry in {node.stage.entry for node in graph.values()}}
    return {name: by_entry[node.stage.entry] for name, node in graph.items()}


@pytest.mark.parametrize("file", EDITED)
def test_code_that_computes_something_else_makes_stale_what_reaches_it(clone, first_run, reached, file):
    path, (name, untouched) = clone / "pipeline" / file, EDITED[file]
    before = path.read_text()
    key = (f"pipeline.{file[:-3].replace('/', '.')}", top_level_name(path, name))
    edit(path, name)
    try:
        found = stale(clone)
    finally:
        path.write_text(before)
    expected = {stage for stage, definitions in reached.items() if key in definitions}
    assert expected and found == {"check_params", *expected}
    assert not [stage for stage in found if stage.startswith(untouched)]


@pytest.mark.parametrize("added", ["# A comment.\n", "import colorsys\n"], ids=["comment", "import"])
def test_comments_and_imports_make_nothing_stale(clone, first_run, added):
    files = {path: path.read_text() for path in (clone / "pipeline").rglob("*.py")}
    for path, text in files.items():
        # Before the last statement, inside the module, where a digest by lines or by files would see it.
        place = ast.parse(text).body[-1].lineno - 1 if text.strip() else 0
        lines = text.splitlines(keepends=True)
        if place and lines[place - 1].startswith("@"):
            continue
        path.write_text("".join([*lines[:place], added, *lines[place:]]))
    try:
        found = stale(clone)
    finally:
        for path, text in files.items():
            path.write_text(text)
    assert found == {"check_params"}


def test_code_that_changed_since_it_was_recorded_stops_the_dag(clone, first_run):
    path = clone / "pipeline" / "core" / "structured" / "wasserstein.py"
    before = path.read_text()
    edit(path, "wasserstein_1")
    result = command(clone, sys.executable, "-m", "dvc", "repro")
    path.write_text(before)
    clones.run(clone, ENVIRONMENT, "python", "-m", "pipeline.compose", "--recorded")
    assert result.returncode != 0 and "code.yaml: eval_structured: the stage's code computes" in result.stderr
    assert stages_run(result.stdout) == {"check_params"}


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
    write_params(clone, broken)
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
