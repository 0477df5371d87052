"""Sweeps without running them: presets, overrides, identities, workspaces, the DAG as data, results."""

import functools
import json

import pandas as pd
import pytest

from pipeline.compose import check, recorded_overrides
from pipeline.config.override_errors import composed_values
from pipeline.config.view import look_up
from pipeline.dag.code_digest import code_digests
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sweep import cells
from pipeline.sweep.application import CONF
from pipeline.sweep.cells import expand_targets, make_cell
from pipeline.sweep.run import Record, claimed_gpu, prepare_workspace, write_record
from pipeline.sweep.settings import PRIMARY, cell_overrides, expand_arguments, sweep_config, value_text
from pipeline.sweep.tables import gather
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

PRESETS = tuple(sorted(path.stem for path in (CONF / "sweep").glob("*.yaml")))


@functools.cache
def section(name: str) -> dict:
    """A preset's section as Hydra composes it."""
    return composed_values(CONF, PRIMARY, [f"sweep={name}"], "sweep")


def preset(name: str, **changes):
    return sweep_config({**section(name), **changes}, "test")


@pytest.mark.parametrize(("name", "model"), [*((name, None) for name in PRESETS), ("hard_ablation", "gemma3_12b")])
def test_every_cell_of_every_preset_composes_to_a_dag_with_its_targets(name, model):
    config = preset(name)
    task = [f"sweep={name}", *([f"model={model}"] if model else [])]
    task += [f"{key}={value_text(key, values[-1])}" for key, values in config.grid.items() if key != "model"]
    if config.cells:
        config = preset(name, cell=len(config.cells) - 1)
    cell = make_cell(cell_overrides(task, config), config.targets, ROOT)
    assert list(cell.params.models) == [model or "embedded"]
    assert cell.targets and set(cell.targets) <= set(cell.stages)
    for key, values in config.grid.items():
        # These two are groups of conf/, and no keys.
        if key not in ("model", "methods"):
            assert look_up(cell.values, key) == values[-1]
    if model:
        # Full scale: the paper's own sizes.
        assert cell.params.generate.structured.num_samples == 1000 and cell.params.train.learning_rate == 2e-4


HARD = ("methods=hard", "conditions=[hard]", "axes=[structured]", "generate.ssot.enabled=false")
STRUCTURED = ("eval-structured@{model}",)


@functools.cache
def cell_of(*overrides: str, targets: tuple[str, ...] = STRUCTURED):
    """A cell of this checkout, composed once."""
    return make_cell(overrides, targets, ROOT)


TRAINING_AND_SAMPLING = ("train-", "generate", "score", "judge")


@pytest.mark.parametrize(("method", "name"), [("soft", "soft_granularity"), ("hard", "hard_ablation")])
def test_a_cell_of_an_ablation_runs_what_its_table_needs(method, name):
    """Neither the other method, nor base and its baselines, nor another axis."""
    config = preset(name)
    overrides = (f"{key}={value_text(key, values[0])}" for key, values in config.grid.items())
    cell = cell_of(*overrides, targets=tuple(config.targets))
    names = {stage for stage in cell.stages if stage.startswith(TRAINING_AND_SAMPLING)}
    assert names == {f"train-{method}@embedded", f"generate@embedded-{method}", f"score@embedded-{method}"}
    parts = {part.name for name in cell.stages for part, _ in cell.graph[name].parts}
    assert parts == {"build-prompts-structured", "generate-structured", "score-structured"}
    assert cell.targets == ("eval-structured@embedded",)


def expand(*arguments: str) -> list[str]:
    return expand_arguments(arguments, CONF)[0]


def test_a_presets_cells_and_grid_become_sweeps():
    given = ["-m", "sweep=hard_ablation", "seed=0,1"]
    assert expand(*given) == [*given, *HARD, "sweep.cell=0,1,2,3,4,5,6,7,8,9"]
    given = ["-m", "sweep=soft_granularity", "conditions=null", "generate.ssot.enabled=true"]
    grid = ["discretize.soft.num_decimals=1,2,3,5", "discretize.soft.max_bins=1001,4096,16384"]
    assert expand(*given) == [*given, "seed=0,1,2", "methods=soft", "axes=[structured]", *grid]
    assert expand("seed=1", "-m", "~tests", "reports=b") == ["-m", "seed=1", "~tests", "reports=b"]
    # Without -m there is one job, and nothing is swept; it trains the preset's method alone all the same.
    assert expand("sweep=hard_ablation", "seed=3") == ["sweep=hard_ablation", "seed=3", *HARD]


def test_what_the_command_line_sets_leaves_the_preset():
    arguments = expand("-m", "sweep=hard_ablation", "discretize.hard.max_bins=1001,16384")
    # Cells 3 and 4 differ from cell 0 in max_bins alone, and cell 8 from cell 2.
    assert arguments[-1] == "sweep.cell=0,1,2,5,6,7,9" and "seed=0,1,2" in arguments
    assert expand("--multirun", "sweep=soft_granularity", "+discretize.soft.max_bins=60")[-1] == (
        "discretize.soft.num_decimals=1,2,3,5"
    )
    chosen = expand("-m", "sweep=hard_ablation", "sweep.cell=2", "seed=0")
    assert chosen == ["-m", "sweep=hard_ablation", "sweep.cell=2", "seed=0", *HARD]
    assert expand("-m", "sweep=paper_by_model", "model=null")[-1] == "~model"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("-m", "sweep=nothing"), "sweep: there is no 'nothing'; there are bins, chosen, construction_cost"),
        (("train.soft.epoch=3",), "there is no key 'epoch'; did you mean epochs"),
        (("seed=0,1",), "seed=0,1: several values are a sweep"),
        (("-m", "sweep.name=../x"), "name: must match"),
        (("-m", "+sweep.grid={seed: [a b]}"), "characters that an override would need quotes for"),
        (("-m", "+sweep.nmae=x"), "nmae: unknown key; did you mean name?"),
    ],
)
def test_unusable_presets_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        expand(*arguments)


def test_overrides_of_a_job():
    config = preset("hard_ablation", cell=1)
    own = ["seed=4", "train.hard.epochs=1"]
    of_cell = ["discretize.hard.num_decimals=2", "discretize.hard.max_bins=1001", "train.hard.samples_per_prompt=16"]
    assert cell_overrides(["sweep=hard_ablation", "sweep.cell=1", *own], config) == [*own, *of_cell]
    chosen = preset("chosen")
    expected = ["experiment=one_model", "+model@models.qwen3_4b=qwen3_4b", "seed=1"]
    assert cell_overrides(["model=qwen3_4b", "seed=1"], chosen) == expected
    assert cell_overrides(["model=null", "experiment=paper"], chosen) == ["experiment=paper"]
    with pytest.raises(ConfigError, match="experiment=paper has models of its own"):
        cell_overrides(["model=qwen3_4b", "experiment=paper"], chosen)
    with pytest.raises(ConfigError, match="got 10; the preset has 10 cells"):
        preset("hard_ablation", cell=10)


def test_identity_is_what_the_targets_depend_on():
    base = cell_of(*HARD)
    # Settings of other stages, of this machine, and of how fast it goes.
    others = ("tracking.project=x", "train.soft.epochs=9", "generate.mcq.num_samples=5", "distributed=ddp_4")
    others += ("generate.structured.batch_size=7", "train.checkpoint_every_steps=3", "train.tokens_per_pass=1024")
    assert cell_of(*HARD, *others).identity == base.identity
    changes = ("seed=1", "train.hard.epochs=9", "generate.structured.num_samples=3", "models.embedded.dtype=bfloat16")
    identities = {cell_of(*HARD, other).identity for other in changes}
    assert len(identities | {base.identity}) == len(changes) + 1
    assert cell_of(*HARD, targets=("train-hard",)).identity != base.identity


def test_full_identity_follows_code_data_and_checkpoints(tmp_path, monkeypatch):
    for name in ("conf", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    model = tmp_path / "models" / "embedded"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    base = make_cell(HARD, STRUCTURED, tmp_path)
    full = base.full_identity(tmp_path)
    assert base.identity == cell_of(*HARD).identity
    assert full == make_cell(HARD, STRUCTURED, tmp_path).full_identity(tmp_path)
    digests = code_digests()
    with monkeypatch.context() as patch:
        # Code that no stage of the cell runs.
        patch.setattr(cells, "code_digests", lambda: {**digests, "train-soft": "0" * 16, "report": "0" * 16})
        assert base.full_identity(tmp_path) == full
        patch.setattr(cells, "code_digests", lambda: {**digests, "train-hard": "0" * 16})
        changed = base.full_identity(tmp_path)
        assert changed != full
    (model / "config.json").write_text("[]")
    assert base.full_identity(tmp_path) not in (full, changed)


def test_targets_in_braces():
    params = cell_of().params
    targets = expand_targets(["a@{model}-x", "report", "b@{tokenizer}"], params)
    assert targets == ["a@embedded-x", "report", "b@embedded"]
    with pytest.raises(ConfigError, match="only \\{model\\}, \\{tokenizer\\} can stand in braces"):
        expand_targets(["a@{modle}"], params)
    with pytest.raises(ConfigError, match="there is no stage 'train-hrad'"):
        cell_of(targets=("train-hrad",))
    cell = cell_of("axes=[structured,mcq]", targets=PAPER_TARGETS)
    assert cell.targets == ("eval-structured@embedded", "eval-mcq@embedded")
    with pytest.raises(ConfigError, match=r"nothing is left to reach of eval-novelty@.*: axes \(now structured, mcq\)"):
        cell_of("axes=[structured,mcq]", targets=PAPER_TARGETS[:1])
    with pytest.raises(ConfigError, match="artifacts: got '/tmp/x'; in a sweep it must be a path inside"):
        cell_of("artifacts=/tmp/x")


PAPER_TARGETS = ("eval-novelty@{model}", "eval-structured@{model}", "eval-open@{model}", "eval-mcq@{model}")


def test_stage_graph_is_that_of_dvc(tmp_path, monkeypatch):
    """Names, commands, files, parameters, code and edges, against DVC's own reading of the dvc.yaml of a workspace."""
    from dvc.repo import Repo

    overrides = ["+model@models.qwen3_4b=qwen3_4b", "generate.constrained.enabled=true", "artifacts=made"]
    cell = make_cell(overrides, PAPER_TARGETS, ROOT)
    prepare_workspace(tmp_path, ROOT, cell, tmp_path / "c")
    ours = cell.graph
    monkeypatch.chdir(tmp_path)
    with Repo(str(tmp_path)) as repo:
        theirs = {stage.addressing: stage for stage in repo.index.stages}
        assert set(ours) == set(theirs)
        for name, stage in theirs.items():
            node, files = ours[name], [dep for dep in stage.deps if not hasattr(dep, "params")]
            assert node.command.split() == stage.cmd.split()
            assert sorted(node.dependencies) == sorted(str(dep.def_path) for dep in files)
            assert sorted(node.outputs) == sorted(str(out.def_path) for out in stage.outs)
            params = {dep.def_path: list(dep.params) for dep in stage.deps if hasattr(dep, "params")}
            assert sorted(node.parameters) == sorted(params.pop("params.yaml", []))
            assert params == ({} if name == "check-params" else {"code.yaml": [node.stage.name]})
            assert {out.def_path for out in stage.outs if not out.use_cache} == set(
                node.outputs[-1:] if node.stage.metrics else ()
            )
        graph = repo.index.graph
        edges = {(a.addressing, b.addressing) for a, b in graph.edges}
    assert {(name, other) for name in ours for other in ours.upstream(name)} == edges


def test_workspace_keeps_what_it_has(tmp_path):
    directory, cache = tmp_path / "sweeps" / "x" / "cell", tmp_path / "sweeps" / "cache"

    def prepare(seed: int) -> None:
        cell = make_cell([f"seed={seed}"], PAPER_TARGETS, ROOT)
        vars(cell)["sources"] = ["data/a", "/absolute", "benchmarks/x.py"]
        prepare_workspace(directory, ROOT, cell, cache)

    prepare(0)
    for name in ("pipeline", "conf", "data", "benchmarks"):
        assert (directory / name).resolve() == ROOT / name and not (directory / name).readlink().is_absolute()
    # What is written here must not reach the checkout.
    for name in ("dag.yaml", "code.yaml", "dvc.yaml"):
        assert not (directory / name).is_symlink()
        assert (directory / name).read_text() == (ROOT / name).read_text()
    check(directory / "params.yaml", directory / "conf")
    (directory / "dvc.lock").write_text("kept")
    prepare(1)
    assert recorded_overrides((directory / "params.yaml").read_text()) == ["seed=1"]
    assert (directory / "dvc.lock").read_text() == "kept"
    (directory / "conf").unlink()
    (directory / "conf").mkdir()
    with pytest.raises(ArtifactError, match="conf is in the way of a link"):
        prepare(1)


def test_gpus_are_claimed_one_by_one(tmp_path):
    with claimed_gpu([2, 3], tmp_path) as first, claimed_gpu([2, 3], tmp_path) as second:
        assert (first, second) == ({"CUDA_VISIBLE_DEVICES": "2"}, {"CUDA_VISIBLE_DEVICES": "3"})
    with claimed_gpu([2, 3], tmp_path) as again, claimed_gpu(None, tmp_path) as nothing:
        assert again == {"CUDA_VISIBLE_DEVICES": "2"} and nothing == {}


def test_results_of_cells(tmp_path):
    labels = {"axis": "mcq", "model": "m", "condition": "hard", "split": "mcq", "family": ""}
    numbers = {"value": 0.25, "n": 4, "ci_low": None, "ci_high": None, "floor": 0.1, "undefined": 0}
    metric = {**labels, "metric": "mcq_total_variation", **numbers}
    for name, seed, status in (("aa", 0, "finished"), ("bb", 1, "failed")):
        cell = tmp_path / name
        evaluation = cell / "artifacts" / "evals" / "mcq" / "m" / "hard"
        evaluation.mkdir(parents=True)
        rows = [{**metric, "value": 0.25 + seed}, {**metric, "family": "beta"}]
        (evaluation / "metrics.json").write_text(json.dumps({"metrics": rows, "failures": {}}))
        (evaluation / "provenance.json").write_text("{}")
        # A model that a cell adds has the name of a column of the metrics.
        overrides = ("+model@models.m=m", f"seed={seed}")
        write_record(cell, Record(str(cell), overrides, status, 2.04, stage="s" * seed, log="run.log"))
        (cell / "cell.json").write_text(json.dumps({"overrides": overrides, "parameters": {}}))
        if status == "finished":
            (cell / "finished.json").write_text("{}")
    gather(tmp_path)
    summary, metrics = (pd.read_csv(tmp_path / f"{name}.csv", dtype={"seed": str}) for name in ("summary", "metrics"))
    assert summary["cell"].tolist() == ["aa", "bb"] and summary["status"].tolist() == ["finished", "failed"]
    # What a failed cell left behind is no result.
    assert summary["m/hard/mcq/mcq_total_variation"].fillna(-1).tolist() == [0.25, -1]
    assert metrics[["cell", "seed", "model", "family"]].fillna("").values.tolist() == [
        ["aa", "0", "m", ""],
        ["aa", "0", "m", "beta"],
    ]
