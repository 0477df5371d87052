"""Jobs of the DAG as a stand-in for Slurm sees them, and the states of stages; ``tests/real`` has a real Slurm."""

import json
import sys

import pytest

from pipeline.config.params import load_params
from pipeline.config.training import DistributedConfig
from pipeline.dag.graph import StageGraph
from pipeline.runs import slurm
from pipeline.runs.parallel import log_of

SBATCH = """#!{python}
import json, pathlib, sys
path = pathlib.Path("submitted")
lines = path.read_text().splitlines() if path.exists() else []
path.write_text("\\n".join([*lines, json.dumps(sys.argv[1:])]) + "\\n")
print(f"{{101 + len(lines)}};cluster")
"""


@pytest.fixture
def directory(monkeypatch, tmp_path):
    """A working directory, and commands that stand for Slurm's."""
    scripts = {"sbatch": SBATCH.format(python=sys.executable), "squeue": "#!/bin/sh\nexec cat queue\n"}
    for name, text in scripts.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue").write_text("")
    return tmp_path


def test_a_job_waits_for_those_whose_outputs_it_reads(directory, tiny_params, capsys):
    graph = StageGraph(load_params(tiny_params))
    stale, distributed = graph.downstream(["build-tries@embedded-soft"]), DistributedConfig("ddp", 4, shards=2)
    slurm.submit(graph, stale, slurm.queued(), distributed, "--partition=long", "--gres=gpu:a100:{}")
    sent = [json.loads(line) for line in (directory / "submitted").read_text().splitlines()]
    names = [next(word for word in line if "--job-name=" in word).partition("=")[2] for line in sent]
    assert set(names) == stale and "scancel 101 102" in capsys.readouterr().out
    for name, line in zip(names, sent, strict=True):
        behind = {f"{101 + names.index(other)}" for other in graph.upstream(name) & stale}
        found = [word.removeprefix("--dependency=afterok:") for word in line if word.startswith("--dependency")]
        assert set(":".join(found).split(":")) - {""} == behind, name
        gpus = {"none": "", "gpu": "1", "shards": "2", "training": "4"}[graph[name].stage.device]
        asked = [word for word in line if "gres" in word]
        assert asked == ([f"--gres=gpu:a100:{gpus}"] if gpus else []) and "--partition=long" in line
    # What Slurm has already is not sent again, wherever else jobs of the same names are.
    queue = [f"{101 + place}|PENDING|{name}|{directory}" for place, name in enumerate(names)]
    (directory / "queue").write_text("\n".join([*queue[1:], f"7|RUNNING|{names[0]}|/elsewhere"]) + "\n")
    slurm.submit(graph, stale, slurm.queued(), distributed, "", "")
    assert len((directory / "submitted").read_text().splitlines()) == len(sent) + 1


@pytest.mark.parametrize(
    ("log", "job", "state"),
    [
        ("", "", "not submitted"),
        ("--- submitted a\n", "PENDING", "waiting"),
        ("--- submitted a\nterminated; finished parts are kept and the next run resumes\n", "PENDING", "interrupted"),
        ("--- submitted a\nERROR: failed to reproduce 'a'\n--- submitted a\n", "RUNNING", "running"),
        ("--- submitted a\nERROR: failed to reproduce 'a'\n", "", "failed"),
        ("--- submitted a\nERROR: of an interruption\na is done\n", "", "done"),
        ("--- submitted a\nRunning stage 'a'\n", "", "cancelled"),
    ],
)
def test_states(directory, log, job, state):
    log_of("a").parent.mkdir(parents=True)
    if log:
        log_of("a").write_text(log)
    assert slurm.state_of("a", job) == state
