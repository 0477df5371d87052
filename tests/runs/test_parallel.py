"""Stages of one checkout side by side, under the real DVC: dvc.lock stays whole, failures stop only what they must."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.locks import exclusive
from pipeline.config.params import validate
from pipeline.config.training import DistributedConfig
from pipeline.dag.declaration import Stage
from pipeline.dag.graph import StageGraph, stages_out_of_date
from pipeline.errors import BusyError, ConfigError, PipelineError
from pipeline.runs.dvc_process import end, failed_stages, last_error
from pipeline.runs.parallel import Runner, main
from pipeline.sweep.run import initialise_dvc
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
PARAMS["models"] = dict.fromkeys("abcd", PARAMS["models"]["embedded"])
# Every stage of the middle waits until another one has started: in a row, they would never end.
DVC_STAGES = {
    "first": {"cmd": "echo $CUDA_VISIBLE_DEVICES > first.txt", "params": ["seed"], "outs": ["first.txt"]},
    "score": {
        "foreach": "${models}",
        "do": {
            "cmd": "python wait.py ${key}",
            "deps": ["first.txt", "wait.py"],
            "outs": [{"out/${key}.txt": {"persist": True}}],
        },
    },
    "behind": {"cmd": "cat out/b.txt > behind.txt", "deps": ["out/b.txt"], "outs": ["behind.txt"]},
    "other": {"cmd": "cat out/a.txt out/c.txt > other.txt", "deps": ["out/a.txt", "out/c.txt"], "outs": ["other.txt"]},
}


def declared(name: str, reads: Sequence[str] = (), writes: str = "", **more) -> Stage:
    """What runs of it wait for, and which GPUs they take, is all that counts here."""
    return Stage(name, "", module=name, sources=tuple(reads), writes={"output": writes or f"{name}.txt"}, **more)


STAGES = {
    stage.name: stage
    for stage in (
        declared("first"),
        declared("score", ["first.txt", "wait.py"], "out/{model}.txt", over="models", device="gpu"),
        declared("behind", ["out/b.txt"]),
        declared("other", ["out/a.txt", "out/c.txt"]),
    )
}


def graph_of(*stages: Stage) -> StageGraph:
    return StageGraph(validate(PARAMS), {stage.name: stage for stage in stages})


WAIT = """
import os, pathlib, sys, time
name = sys.argv[1]
pathlib.Path("started").mkdir(exist_ok=True)
device = os.environ.get("CUDA_VISIBLE_DEVICES", "any")
pathlib.Path("started", name).write_text(device)
deadline = time.monotonic() + 300
while len(os.listdir("started")) < 2 and time.monotonic() < deadline:
    time.sleep(0.02)
if len(os.listdir("started")) < 2 or (name == "b" and not os.path.exists("mended")):
    sys.exit(f"error: {name} is not to be had")
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out", name + ".txt").write_text(name + " on " + device)
"""


@pytest.fixture(autouse=True)
def small_dag(monkeypatch):
    """The declarations of the project below in the place of this one's."""
    monkeypatch.setattr("pipeline.runs.parallel.StageGraph", partial(StageGraph, stages=STAGES))
    monkeypatch.setattr("pipeline.runs.parallel.check", lambda params, conf: None)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    (directory / "dvc.yaml").write_text(yaml.safe_dump({"stages": DVC_STAGES}, sort_keys=False))
    (directory / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (directory / "wait.py").write_text(WAIT)
    initialise_dvc(directory, directory / ".dvc" / "cache")
    return directory


def run(project: Path, *targets: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        main(list(targets), jobs=4, gpus=[5, 7])


def locked_stages(project: Path) -> set[str]:
    return set(yaml.safe_load((project / "dvc.lock").read_text())["stages"])


def test_side_by_side_with_a_failure_in_between(project, capfd):
    with pytest.raises(PipelineError, match="failed: score@b; the logs are in"):
        run(project)
    printed = capfd.readouterr().err
    assert "FAILED score@b: error: b is not to be had; log: " in printed
    assert "1 stages that wait for it are skipped" in printed and "5 done, 1 failed, 1 skipped" in printed
    # Every writer's entry is there, and DVC agrees that these stages are done.
    assert locked_stages(project) == {"first", "score@a", "score@c", "score@d", "other"}
    assert stages_out_of_date(project) == {"score@b", "behind"}
    # A stage that loads a model has one of the GPUs, and never both; one that does not sees none. Two ran at once.
    devices = {(project / "started" / name).read_text() for name in "abcd"}
    assert devices == {"5", "7"} and (project / "first.txt").read_text().strip() == ""
    (project / "mended").touch()
    run(project, "behind")
    assert locked_stages(project) == {"first", *(f"score@{name}" for name in "abcd"), "behind", "other"}
    command = [sys.executable, "-m", "dvc", "repro"]
    again = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
    assert "Running stage" not in again and "up to date" in again


def test_refusals(project):
    with exclusive(project / ".dvc" / "tmp" / "parallel", "another"), pytest.raises(BusyError, match="already running"):
        run(project)
    with pytest.raises(ConfigError, match="there is no stage 'score@x'; did you mean .* there are score@a, score@b"):
        run(project, "score@x")
    with pytest.raises(ConfigError, match="there is no stage 'nothing'; there are behind, first, other, score"):
        run(project, "nothing")
    values = {**PARAMS, "distributed": {"strategy": "ddp", "num_processes": 3}}
    (project / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="--gpus names 2 GPUs; distributed.num_processes needs 3"):
        run(project)
    (project / "params.yaml").write_text(yaml.safe_dump(PARAMS))


def random_graph(random: Random) -> StageGraph:
    return graph_of(
        *(
            declared(f"s{row}", [f"o/{other}" for other in range(row) if random.random() < 0.3], f"o/{row}")
            for row in range(random.randint(1, 9))
        )
    )


@given(st.integers(0, 2**32))
def test_each_stage_runs_once_behind_what_it_waits_for(seed):
    random = Random(seed)
    graph = random_graph(random)
    pending = graph.downstream(random.sample(sorted(graph), random.randint(1, len(graph))))
    runner = Runner(graph, pending, random.randint(1, 3), None, DistributedConfig("single", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.runs.parallel.start_dvc", lambda *_: object())
        while runner.waiting:
            runner.start_ready()
            assert runner.running, "nothing runs and nothing can start"
            for name in runner.running:
                # Nothing starts before all that it reads is made by this run, or was there before it.
                assert graph.upstream(name) & pending <= set(runner.done)
            runner.finish(random.choice(sorted(runner.running)), random.random() < 0.7)
    ended = [*runner.running, *runner.done, *runner.failed, *runner.skipped]
    assert sorted(ended) == sorted(pending)
    assert graph.downstream(runner.failed) & pending == {*runner.failed, *runner.skipped}


@pytest.fixture
def start(monkeypatch):
    """Starts what is ready of stages with these devices; the GPUs that each sees, by name."""
    seen = {}

    def start_dvc(directory, arguments, log, environment):
        seen[arguments[-1]] = environment

    monkeypatch.setattr("pipeline.runs.parallel.start_dvc", start_dvc)

    def start(gpus: list[int] | None, **devices: str) -> dict[str, str | None]:
        graph = graph_of(*(declared(name, device=device) for name, device in devices.items()))
        Runner(graph, devices, 4, gpus, DistributedConfig("ddp", 2, shards=3)).start_ready()
        return {name: environment.get("CUDA_VISIBLE_DEVICES") for name, environment in seen.items()}

    return start


def test_gpus_stay_reserved_for_training_while_stages_without_a_model_start(start):
    found = start([0, 1], sample="gpu", train="training", evaluate="none", other="gpu")
    # "other" would take the GPU that "train" waits for.
    assert found == {"sample": "0", "evaluate": ""}
    assert start([3, 5, 7], train="training", other="gpu")["train"] == "3,5"
    assert start([3, 5, 7], sample="shards", other="gpu")["sample"] == "3,5,7"


def test_dvc_is_not_ended_while_it_writes_its_lock(tmp_path):
    code = (
        "import time\nwith open('dvc.lock', 'w') as f: print(flush=True); time.sleep(1); f.write('all')\ntime.sleep(60)"
    )
    settings = {"cwd": tmp_path, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **settings) as writer:
        writer.stdout.readline()
        end(writer)
    assert (tmp_path / "dvc.lock").read_text() == "all"


def test_failures_are_read_from_dvcs_messages():
    assert failed_stages("ERROR: failed to reproduce 'a@x': failed to run: y, exited with 1") == ["a@x"]
    assert failed_stages("ERROR: failed to reproduce stages: 'a@1', 'b' and 'c@x-y'\n") == ["a@1", "b", "c@x-y"]
    assert last_error("error: first\n error: of the stage\nERROR: failed to reproduce 'a'") == "error: of the stage"
    assert last_error("ERROR: DVC's own") == "ERROR: DVC's own" and last_error("Running") == ""
