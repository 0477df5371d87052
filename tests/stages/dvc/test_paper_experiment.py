"""The paper's experiment, every kind of stage, with stand-ins of its checkpoints swapped in by one override."""

import os
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from pipeline.compose import compose_params, write_files
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES
from tests.command_line import run_command_line
from tests.conftest import ROOT
from tests.stages.dvc.clones import FEW_OPEN_PROMPTS, write_few_open_prompts, write_short_tasks

OVERRIDES = ["experiment=paper", "stand_ins=tiny", f"prompts.open.source={FEW_OPEN_PROMPTS}"]
# One of each architecture: stages of the other models run the same code on other sizes.
CHOSEN = ("qwen3_0_6b", "gemma3_1b", "gemma3_4b", "llama3_2_1b", "gpt_oss_20b")
# In tests/stages/test_preflight.py and, on each architecture, tests/engines/sampling/test_preflight.py; all that waits
# for it asks for is that it is there.
CHECKED_ELSEWHERE = {f"preflight@{model}" for model in CHOSEN[1:]}
OF_OTHERS = ("score-retention", "generate-mcq")


def in_this_process(command: str) -> None:
    """Run a stage's command as DVC would, without starting Python again."""
    program, option, module, *arguments = shlex.split(command)
    assert (program, option) == ("python", "-m")
    with pytest.MonkeyPatch.context() as patch:
        run_command_line(patch, module, *arguments)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, stand_ins):
    """A directory with the DAG, its parameters and the stand-ins."""
    directory = tmp_path_factory.mktemp("paper")
    for name in ("conf", "pipeline"):
        (directory / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "data", directory / "data")
    (directory / "models").mkdir()
    (directory / "models" / "stand_ins").symlink_to(stand_ins["qwen3"].parent)
    write_few_open_prompts(directory)
    write_short_tasks(directory / "data" / "retention")
    write_files(directory, compose_params(ROOT / "conf", OVERRIDES), OVERRIDES)
    return directory


@pytest.fixture(scope="module")
def graph(workspace) -> StageGraph:
    return StageGraph(load_params(workspace / "params.yaml"))


def test_every_kind_of_stage_runs(workspace, graph, monkeypatch, capsys, one_figure):
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # All of the first model; of the others what depends on an architecture, for one adapter: evaluations do not.
    targets = [node.name for node in graph.values() if node.name != "report" and node.model in ("", CHOSEN[0])]
    for name in graph.closure(targets):
        in_this_process(graph[name].command)
    pieces = StageGraph(load_params(workspace / "params.yaml"), PIECES)
    done = {piece[0].name for node in graph.values() if node.model in ("", CHOSEN[0]) for piece in node.pieces}
    of_others = [f"{part}@{model}-soft" for part in OF_OTHERS for model in CHOSEN[1:]]
    for name in pieces.closure(of_others):
        if name in CHECKED_ELSEWHERE:
            Path(pieces[name].outputs[0]).write_text("{}")
        elif pieces[name].model or pieces[name].stage.name not in done:
            in_this_process(pieces[name].command)
    in_this_process(graph["report"].command)
    metrics = pd.read_csv(workspace / "reports" / "stand_ins" / "metrics.csv", keep_default_na=False)
    assert set(metrics["model"]) == {CHOSEN[0]} and set(metrics["condition"]) == {"base", "soft", "hard", "ssot"}
    assert set(metrics["axis"]) == set(load_params(workspace / "params.yaml").axes)
    for model in CHOSEN[1:]:
        assert all((workspace / pieces[f"{part}@{model}-soft"].outputs[0]).exists() for part in OF_OTHERS)
    unfinished = Path("artifacts", "stand_ins", "unfinished")
    assert not any(path.is_file() and path.suffix != ".lock" for path in unfinished.rglob("*"))
    assert os.path.exists("reports/stand_ins/index.html")
