"""W&B: mode by credentials, runs that are resumed and not doubled, and stages that no failure of W&B reaches."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from pipeline.config.params import TrackingConfig, load_params
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import Run, stage_run, tracking_mode
from tests.wandb_server import wandb_server

pytestmark = pytest.mark.slow

KEY = "0123456789" * 4
CONFIG = TrackingConfig(mode="auto", project="p")


@pytest.fixture
def directory(monkeypatch, tmp_path):
    """An empty working directory without credentials, W&B not disabled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_DIR", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    import wandb

    # W&B's service keeps the settings and credentials that it started with.
    wandb.teardown()
    yield tmp_path
    wandb.teardown()


@pytest.fixture
def opened(tiny_params):
    """Opens the run of a stage, the same each time."""
    config = replace(load_params(tiny_params), experiment="paper", tracking=CONFIG)
    record = StageRecord("train-soft", {"lora.rank": 16}, [], "code")
    return lambda: stage_run(config, record, model="m", condition="soft")


@pytest.mark.parametrize(
    ("mode", "environment", "key", "expected"),
    [
        ("auto", None, None, "offline"),
        ("auto", None, "k", "online"),
        ("auto", "disabled", "k", "disabled"),
        # W&B would ask for a key.
        ("online", None, None, "offline"),
    ],
)
def test_mode(monkeypatch, directory, mode, environment, key, expected):
    for name, value in (("WANDB_MODE", environment), ("WANDB_API_KEY", key)):
        if value:
            monkeypatch.setenv(name, value)
    assert tracking_mode(TrackingConfig(mode=mode, project="p")) == expected


def test_credentials_are_those_of_the_server(monkeypatch, directory):
    (directory / ".netrc").write_text(f"machine api.wandb.ai login user password {KEY}\n")
    assert tracking_mode(CONFIG) == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "http://elsewhere.example:8080")
    assert tracking_mode(CONFIG) == "offline"


class Recorded:
    """Stands for a W&B run and keeps what it is given."""

    def __init__(self):
        self.points, self.summary = [], {}

    def log(self, values, step, commit):
        self.points.append((step, values))


def test_steps_that_are_known_are_left_out():
    recorded = Recorded()
    run = Run(recorded, last_step=3)
    for step in (2, 3, 4, 5, 5):
        run.log({"loss": step / 2}, step=step)
    run.log({"final": 1})
    run.table("t", pd.DataFrame({"a": [1]}))
    assert [step for step, _ in recorded.points] == [4, 5, 6] and recorded.summary == {"final": 1}


def test_a_failure_of_wandb_is_one_warning(capsys):
    class Broken(Recorded):
        def log(self, values, step, commit):
            raise OSError("no space left")

    run = Run(Broken())
    for step in range(3):
        run.log({"loss": 1}, step=step)
    run.finish()
    assert capsys.readouterr().err == "warning: tracking: given up for this stage (no space left)\n"


def test_an_unreachable_server_leaves_an_offline_run(monkeypatch, directory, capsys, opened):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    # Nobody listens on the port for discarded data.
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("pipeline.record.tracking.CONNECT_SECONDS", 1)
    with opened() as run:
        run.log({"loss": 0.5}, step=7)
    assert "kept offline" in capsys.readouterr().err
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        sync()
        assert server.steps() == [[7]]


def test_wandb_reads_an_offline_run(directory, opened):
    """Its own reader finds what sweeps are compared by (settings, each under its name) and the curve's last point."""
    with pytest.raises(KeyError), opened() as run:
        for step in (1, 2):
            run.log({"train/loss": 1 / step}, step=step)
        run.log({"final": 3.0})
        raise KeyError("the stage's own error passes")
    (kept,) = directory.glob("wandb/offline-run-*-train-soft-m-soft-*")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(kept)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    history = [record["history"]["item"] for record in map(json.loads, lines) if record["type"] == "history"]
    assert [(item["_step"], item["train/loss"]) for item in history] == [(1, 1.0), (2, 0.5)]
    found = json.loads(subprocess.run([*command, "--summary"], check=True, capture_output=True, text=True).stdout)
    assert found["summary"].items() >= {"train/loss": 0.5, "final": 3.0}.items()
    settings = {"lora": {"rank": 16}, "experiment": "paper", "stage": "train-soft", "model": "m", "condition": "soft"}
    assert found["config"].items() >= settings.items()


def sync() -> None:
    """What `make wandb-sync` runs."""
    environment = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}
    subprocess.run([sys.executable, "-m", "wandb", "sync", "--yes"], env=environment, check=True, capture_output=True)


def test_online_runs_resume_behind_the_servers_last_step(monkeypatch, directory, opened):
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        for last in (3, 5):
            with opened() as run:
                for step in range(1, last + 1):
                    run.log({"loss": 1 / step}, step=step)
        assert server.steps() == [[1, 2, 3, 4, 5]]
