"""A stage process that is killed outright leaves no damage and resumes to the same bytes."""

import functools
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.config.params import load_params
from pipeline.core.random_streams import random_stream
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES, STAGES
from pipeline.report import write
from pipeline.report.figures.drawing import draw_all
from tests.dag.test_declarations import MODULES
from tests.forked import ForkedModule
from tests.stages import kills
from tests.stages.dvc.clones import clone_project
from tests.stages.preloaded_python import draw_one, preload
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

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


def jobs(project: Path) -> Iterator[tuple[kills.Job, bool]]:
    """One job per stage that is needed, and whether it is killed: one of every kind of stage is."""
    graph = StageGraph(load_params(project / "params.yaml"), PIECES)
    chosen: set[str] = set()
    for name in graph.closure(graph):
        node = graph[name]
        module = node.stage.module_name
        is_chosen = module not in chosen and node.row.get("condition") != "base"
        chosen |= {module} if is_chosen else set()
        key = "-".join(node.row[column] for column in node.stage.chosen_by)
        scratch = [project / "artifacts" / "unfinished" / node.stage.name / key] if key else []
        words, outputs = shlex.split(node.command), [project / output for output in node.outputs]
        yield kills.Job(name, words[2], words[3:], outputs, scratch), is_chosen


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_model) -> Path:
    """Where stages are killed. An evaluation reads what a model did under every condition; one adapter is enough."""
    return clone_project(
        tmp_path_factory.mktemp("kills"),
        tiny_model,
        "retention={tasks:[tinyMMLU],max_new_tokens:4}",
        "conditions=[base,soft]",
        "generate.ssot.enabled=false",
        "+method@methods.anchored=anchored",
    )


@pytest.fixture(scope="module")
def killed(project):
    """How often the stage of each module was killed, and all that was wrong."""
    preload()
    counts, errors = {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(write, "draw_all", functools.partial(draw_one, draw_all))
        patch.chdir(project)
        for job, is_chosen in jobs(project):
            rng = random_stream(0, "kills", job.module)
            # One in every equal part of the stage's work, and a little beyond its end; a single one well inside.
            moments = [1.05 * (place + rng.random()) / KILLS for place in range(KILLS)]
            moments = [rng.uniform(0.3, 0.7)] if KILLS == 1 else moments
            times, found = kills.examine(job, project / "log", moments if is_chosen else [])
            errors += [f"{job.name}: {error}" for error in found]
            if is_chosen:
                counts[job.module] = times
    return counts, errors


def test_every_stage_survives_sigkill(killed):
    counts, errors = killed
    assert not errors, "\n".join(errors)
    assert set(counts) >= MODULES - OUTSIDE_THE_DAG - TOGETHER and all(counts.values())


def finished(scratch: Path) -> set[bytes]:
    """Complete lines of finished work in a scratch directory."""
    lines = (line for path in scratch.rglob("values.jsonl") for line in path.read_bytes().splitlines(keepends=True))
    return {line for line in lines if line.endswith(b"\n")}


def test_a_second_run_is_refused_and_sigterm_keeps_what_is_done(killed, project, tmp_path):
    job = next(job for job, _ in jobs(project) if job.name == "score-structured@embedded-soft")
    command, (scratch,), (output, *_) = [job.module, *job.arguments], job.scratch, job.outputs
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
        assert f"error: score-structured embedded soft is already running (process {first.pid} on " in second.errors
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
