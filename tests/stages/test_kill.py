"""A stage process that is killed outright leaves no damage and resumes to the same bytes."""

import functools
import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.config.params import load_params
from pipeline.core.random_streams import random_stream
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES, STAGES
from pipeline.report import assemble
from pipeline.report.figures.drawing import draw_all
from tests.conftest import ROOT
from tests.dag.test_declarations import MODULES
from tests.forked import ForkedModule
from tests.stages import kills
from tests.stages.clones import clone_project
from tests.stages.conftest import run_stage
from tests.stages.preloaded_python import draw_one, preload
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def start(name: str, params: Path, output: Path) -> ForkedModule:
    """A process of a run by its name in DVC, with an output of its own."""
    command = StageGraph(load_params(params), PIECES)[name].command.split()[2:]
    return ForkedModule([*command, "--params", str(params), "--output", str(output)], ROOT)


def test_sigkill_during_training(dag, tmp_path):
    values = yaml.safe_load(dag.params.read_text())
    values["train"]["soft"]["epochs"] = 15
    params, name = tmp_path / "params.yaml", "train-soft@embedded"
    params.write_text(yaml.safe_dump(values))

    whole = run_stage(params, name, output=tmp_path / "whole")
    killed = start(name, params, tmp_path / "killed")
    state = whole.unfinished / "state.safetensors"
    wait_until(state.exists, killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert state.exists() and not (tmp_path / "killed").exists()
    run_stage(params, name, output=tmp_path / "killed")
    for file in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert not state.exists()


def test_sigkill_in_the_middle_of_one_prompts_samples(dag, tmp_path):
    values = yaml.safe_load(dag.params.read_text())
    # One prompt and many samples: what a kill may cost is a batch, not the prompt.
    values["generate"]["mcq"] |= {"num_samples": 100, "max_new_tokens": 20, "batch_size": 8}
    params, name = tmp_path / "params.yaml", "generate-mcq@embedded-base"
    params.write_text(yaml.safe_dump(values))

    scratch = run_stage(params, name, output=tmp_path / "whole.parquet").unfinished.parent

    def journalled():
        lines = [line for path in scratch.rglob("*.jsonl") for line in path.read_bytes().splitlines(True)]
        return {key for line in lines if line.endswith(b"\n") for key in json.loads(line)}

    assert not journalled()
    killed = start(name, params, tmp_path / "killed.parquet")
    wait_until(lambda: len(journalled()) >= 10, killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    saved = journalled()
    assert 10 <= len(saved) < 100 and not (tmp_path / "killed.parquet").exists()
    run_stage(params, name, output=tmp_path / "killed.parquet")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "killed.parquet"), pd.read_parquet(tmp_path / "whole.parquet")
    )
    assert not journalled()


KILLS = int(os.environ.get("KILLS_PER_STAGE", "1"))
"""How often every kind of stage is killed; many more than in the default test are worth an occasional night."""
OUTSIDE_THE_DAG = {
    "pipeline.stages.profile_construction",
    *(f"pipeline.axes.laws.{name}" for name in ("build", "score", "evaluate")),
    *(f"pipeline.axes.selfreflect.{name}" for name in ("requests", "score", "evaluate")),
}
"""What is off unless it is asked for; laws of one's own are sampled and scored by what others are."""
TOGETHER = {stage.module_name for stage in STAGES.values() if stage.parts}
"""Stages of several parts, which are killed by themselves; ``test_parts`` kills a stage between two."""
ONE_METHOD = ("conditions=[base,soft]", "generate.ssot.enabled=false")
"""An evaluation reads what a model did under every condition; one adapter is enough."""


def jobs(project: Path) -> Iterator[dict]:
    """One job per stage that is needed; those to be killed have moments, one of every kind of stage."""
    graph = StageGraph(load_params(project / "params.yaml"), PIECES)
    chosen: set[str] = set()
    for name in graph.closure(graph):
        node = graph[name]
        module, condition = node.stage.module, node.row.get("condition", "")
        # One axis of sampling; in a night's run all.
        kind = node.stage.name if module == "generate_axis" and KILLS > 1 else module
        moments: list[float] = []
        if kind not in chosen and condition != "base":
            chosen.add(kind)
            rng = random_stream(0, "kills", kind)
            # One in every equal part of the stage's work, and a little beyond its end; a single one well inside.
            moments = [1.05 * (place + rng.random()) / KILLS for place in rng.permutation(KILLS)]
            if KILLS == 1:
                moments = [rng.uniform(0.3, 0.7)]
        key = "-".join(node.row[column] for column in node.stage.chosen_by)
        words = shlex.split(node.command)
        yield {
            "name": name,
            "module": words[2],
            "arguments": words[3:],
            "outputs": [str(project / output) for output in node.outputs],
            "scratch": [str(project / "artifacts" / "unfinished" / node.stage.name / key)] if key else [],
            "moments": moments,
        }


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_model) -> Path:
    """Where stages are killed."""
    return clone_project(
        tmp_path_factory.mktemp("kills"),
        tiny_model,
        "retention={tasks:[tinyMMLU],max_new_tokens:4}",
        *ONE_METHOD,
        "+method@methods.anchored=anchored",
        "+method@methods.soft_half=soft_half",
    )


@pytest.fixture(scope="module")
def kill_reports(project):
    """The report of every killed stage by the module it runs."""
    preload()
    reports: dict[str, list[dict]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(assemble, "draw_all", functools.partial(draw_one, draw_all))
        patch.chdir(project)
        for job in jobs(project):
            report = kills.examine(job, project / "log")
            assert not (report["errors"] and not job["moments"]), report
            if job["moments"]:
                reports.setdefault(job["module"], []).append(report)
    return reports


def test_every_stage_survives_sigkill(kill_reports, record_property):
    errors = [
        f"{report['name']}: {error}"
        for found in kill_reports.values()
        for report in found
        for error in report["errors"]
    ]
    killed = sum(report["killed"] for found in kill_reports.values() for report in found)
    finished = sum(report["finished"] for found in kill_reports.values() for report in found)
    record_property("kills", killed)
    print(f"{killed} kills, {finished} runs that were faster, {len(errors)} errors")
    assert not errors, "\n".join(errors)
    assert killed >= 0.6 * (killed + finished)


def test_every_kind_of_stage_was_killed(kill_reports):
    assert set(kill_reports) >= MODULES - OUTSIDE_THE_DAG - TOGETHER
    assert [report["name"] for found in kill_reports.values() for report in found if not report["killed"]] == []


CARELESS = (
    "import sys, time\n"
    "with open(sys.argv[1], 'w') as file:\n"
    "    for part in ('a', 'b'):\n"
    "        end = time.process_time() + 0.2\n"
    "        while time.process_time() < end: pass\n"
    "        file.write(part); file.flush()\n"
)


@pytest.mark.parametrize(("moment", "noticed"), [(0.75, True), (2.0, False)])
def test_the_examination_notices_a_stage_that_writes_in_place(tmp_path, monkeypatch, moment, noticed):
    (tmp_path / "careless.py").write_text(CARELESS)
    monkeypatch.chdir(tmp_path)
    job = {
        "name": "careless",
        "module": "careless",
        "arguments": ["output"],
        "outputs": [str(tmp_path / "output")],
        "scratch": [],
        "moments": [moment],
    }
    report = kills.examine(job, tmp_path / "log")
    assert bool(report["errors"]) == noticed and report["killed"] == noticed


def finished(scratch: Path) -> set[bytes]:
    """Rows of the finished prompts in a scratch directory."""
    lines = (line for path in scratch.rglob("values.jsonl") for line in path.read_bytes().splitlines(keepends=True))
    return {line for line in lines if line.endswith(b"\n")}


def test_a_second_run_is_refused_and_sigterm_keeps_what_is_done(kill_reports, project, tmp_path):
    job = next(job for job in jobs(project) if job["name"] == "exact-structured@embedded-soft")
    command = [job["module"], *job["arguments"]]
    scratch, (output, *_) = Path(job["scratch"][0]), map(Path, job["outputs"])
    lock = scratch.with_name(scratch.name + ".lock")
    before = kills.digest(output)
    first = ForkedModule(command, project, tmp_path / "first")
    wait_until(lambda: finished(scratch), first)
    first.send_signal(signal.SIGSTOP)
    try:
        found = finished(scratch)
        assert found and lock.exists()
        second = ForkedModule(command, project, tmp_path / "second")
        assert second.wait() == 1
        assert f"error: exact-structured embedded soft is already running (process {first.pid} on " in second.errors
        assert finished(scratch) == found
        # What Slurm and Kubernetes send before they kill.
        first.send_signal(signal.SIGTERM)
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait() == 143
    assert first.errors.endswith("terminated; finished parts are kept and the next run resumes\n")
    assert finished(scratch) >= found and not lock.exists()
    assert ForkedModule(command, project).wait() == 0
    assert kills.digest(output) == before and not scratch.exists()
