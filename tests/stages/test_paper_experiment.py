"""The paper's experiment, every kind of stage, with stand-ins of its checkpoints swapped in by one override."""

import os
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import networkx
import pandas as pd
import pytest
from dvc.repo import Repo

from pipeline.compose import compose_params, render
from pipeline.config.params import validate
from tests.conftest import ROOT

OVERRIDES = ["experiment=paper", "stand_ins=tiny"]
# One of each architecture: stages of the other models run the same code on other sizes.
CHOSEN = ("qwen3_0_6b", "gemma3_1b", "gemma3_4b", "llama3_2_1b", "gpt_oss_20b")


def in_this_process(command: str) -> None:
    """Run a stage's command as DVC would, without starting Python again."""
    program, option, module, *arguments = shlex.split(command)
    assert (program, option) == ("python", "-m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *arguments])
        runpy.run_module(module, run_name="__main__", alter_sys=True)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, stand_ins):
    """A directory with the DAG, its parameters and the stand-ins."""
    directory = tmp_path_factory.mktemp("paper")
    for name in ("conf", "data", "pipeline"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "models").mkdir()
    (directory / "models" / "stand_ins").symlink_to(stand_ins["qwen3"].parent)
    shutil.copy(ROOT / "dvc.yaml", directory)
    (directory / "params.yaml").write_text(render(compose_params(ROOT / "conf", OVERRIDES), OVERRIDES))
    return directory


@pytest.fixture(scope="module")
def stages(workspace):
    """Every stage of the DAG in an order in which they can run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workspace)
        with Repo.init(str(workspace), no_scm=True) as repo:
            return list(networkx.dfs_postorder_nodes(repo.index.graph))


def model_of(address: str, models: list[str]) -> str | None:
    """The model that a stage belongs to; None where several share it."""
    return next((name for name in models if f"@{name}" in address and "build_tries" not in address), None)


def test_the_whole_experiment_composes_to_one_dag(stages):
    values = compose_params(ROOT / "conf", OVERRIDES)
    del values["dag"]
    models = list(validate(values).models)
    owners = [model_of(stage.name, models) for stage in stages]
    sizes = {name: owners.count(name) for name in models}
    assert len(models) == 12 and len(set(sizes.values())) == 1
    kinds = {stage.name.split("@")[0] for stage in stages}
    assert {"preflight", "train_soft", "train_hard", "generate_novelty", "eval_paloma", "report"} < kinds


def test_every_kind_of_stage_runs(workspace, stages, monkeypatch, capsys):
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    models = list(compose_params(ROOT / "conf", OVERRIDES)["models"])
    for stage in stages:
        owner = model_of(stage.name, models)
        # An adapter is evaluated like another: those of the hard target once.
        if owner in (None, CHOSEN[0]) or (owner in CHOSEN and not stage.name.endswith("-hard")):
            in_this_process(stage.cmd)
    metrics = pd.read_csv(workspace / "reports" / "stand_ins" / "metrics.csv", keep_default_na=False)
    assert set(metrics["model"]) == set(CHOSEN)
    assert set(metrics["axis"]) == {"structured", "open", "mcq", "novelty", "retention", "paloma"}
    for model in CHOSEN:
        conditions = set(metrics.loc[metrics["model"] == model, "condition"])
        assert conditions == {"base", "soft", "ssot"} | ({"hard"} if model == CHOSEN[0] else set()), model
        assert Path("artifacts/stand_ins/adapters", model, "hard", "adapter_model.safetensors").exists()
    unfinished = Path("artifacts", "stand_ins", "unfinished")
    assert not any(path.is_file() and path.suffix != ".lock" for path in unfinished.rglob("*"))
    assert os.path.exists("reports/stand_ins/index.html")
