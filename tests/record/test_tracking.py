"""W&B: mode by credentials, runs that are resumed and not doubled, and stages that no failure of W&B reaches."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pipeline.config.params import TrackingConfig, load_params
from pipeline.record.progress_bar import LoggedBar
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import FLUSH_SECONDS, Run, stage_run, tracked_run, tracking_mode
from tests.waiting import wait_until
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


def opened(name="n"):
    return tracked_run(CONFIG, name=name, id="a" * 16, group="g", job_type="j", config={"x": 1})


@pytest.mark.parametrize(
    ("mode", "environment", "key", "expected"),
    [
        ("auto", None, None, "offline"),
        ("auto", None, "k", "online"),
        ("offline", None, "k", "offline"),
        ("auto", "disabled", "k", "disabled"),
        # W&B would ask for a key.
        ("online", None, None, "offline"),
        ("auto", "online", None, "offline"),
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


def test_disabled_accepts_everything(monkeypatch, directory):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with opened() as run:
        run.log({"a": 1.0}, step=1)
        run.table("t", pd.DataFrame({"a": [1]}))
        run.image("i", "nowhere.png")
        assert list(run.bar(range(3), disable=True)) == [0, 1, 2]
        bar = run.bar(total=3, file=io.StringIO())
        assert not bar.disable
    # tqdm's way to say that it is closed.
    assert bar.disable
    assert not list(directory.iterdir())


def test_offline_run_holds_curve_and_table(directory):
    with opened() as run:
        run.log({"loss": 0.5}, step=1)
        run.table("metrics", pd.DataFrame({"metric": ["w"], "value": [0.25]}))
    (table,) = directory.glob("wandb/offline-run-*/files/media/table/*.json")
    assert json.loads(table.read_text())["data"] == [["w", 0.25]]


class Recorded:
    """Stands for a W&B run and keeps what it is given."""

    def __init__(self):
        self.points, self.summary, self.ended = [], {}, None

    def log(self, values, step, commit):
        self.points.append((step, values))

    def finish(self, exit_code):
        self.ended = exit_code


def test_steps_that_are_known_are_left_out():
    recorded = Recorded()
    run = Run(recorded, last_step=3)
    for step in (2, 3, 4, 5, 5):
        run.log({"loss": step / 2}, step=step)
    run.log({"final": 1})
    run.table("t", pd.DataFrame({"a": [1]}))
    run.finish()
    assert [step for step, _ in recorded.points] == [4, 5, 6]
    assert recorded.summary == {"final": 1} and recorded.ended == 0


def test_a_failure_of_wandb_is_one_warning(capsys):
    class Broken(Recorded):
        def log(self, values, step, commit):
            raise OSError("no space left")

    run = Run(Broken())
    for step in range(3):
        run.log({"loss": 1}, step=step)
    run.finish()
    assert capsys.readouterr().err == "warning: tracking: given up for this stage (no space left)\n"


def test_a_missing_package_does_not_stop_the_stage(monkeypatch, directory, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with opened(name="train-soft m") as run:
        run.log({"a": 1}, step=1)
    assert "train-soft m is not tracked" in capsys.readouterr().err


def test_an_unreachable_server_leaves_an_offline_run(monkeypatch, directory, capsys):
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
        assert server.runs["a" * 16].steps == [7]


def test_an_error_of_the_stage_passes_and_is_seen_in_the_run(monkeypatch, directory):
    recorded = Recorded()
    monkeypatch.setattr("pipeline.record.tracking._open", lambda mode, arguments: Run(recorded))
    with pytest.raises(KeyError), opened():
        raise KeyError("the stage's own")
    assert recorded.ended == 1


def test_bar_logs_counts_and_rates(monkeypatch):
    now, points = [0.0], []
    monkeypatch.setattr("pipeline.record.progress_bar.time.monotonic", lambda: now[0])
    bar = LoggedBar(
        total=100, unit="sample", file=io.StringIO(), log=lambda values, step: points.append((step, values))
    )
    bar.restored(40)
    for seconds, count in ((6, 15), (12, 15), (20, 20), (25, 10)):
        now[0] = seconds
        bar.update(count)
    bar.close()
    bar.close()
    # The first point 12 s after the start, the next not before 22 s and the last at the end, which has nothing new.
    assert points == [
        (70, {"throughput/samples": 70, "throughput/samples_per_second": 30 / 12}),
        (100, {"throughput/samples": 100, "throughput/samples_per_second": 30 / 13}),
    ]


def test_bar_does_not_count_what_it_starts_with():
    points = []
    for initial in (6, 9):
        bar = LoggedBar(total=9, initial=initial, disable=True, log=lambda values, step: points.append(step))
        bar.update(9 - initial)
        bar.close()
    assert points == [9]


@pytest.mark.parametrize("disable", [True, False])
def test_bar_over_an_iterable(disable):
    points = []
    bar = LoggedBar(
        range(5),
        unit="B",
        disable=disable,
        file=io.StringIO(),
        log=lambda values, step: points.append((step, list(values))),
    )
    assert list(bar) == list(range(5))
    assert points == [(5, ["throughput/bytes", "throughput/bytes_per_second"])]


def test_stage_run_says_what_the_run_is(monkeypatch, directory, tiny_params):
    seen = {}

    def capture(mode, arguments):
        seen.update(arguments)
        return Run(Recorded())

    monkeypatch.setattr("pipeline.record.tracking._open", capture)
    config = replace(load_params(tiny_params), experiment="paper", tracking=CONFIG)
    record = StageRecord("train-soft", {"rank": 16}, [tiny_params], "code")
    with stage_run(config, record, model="qwen3_14b", condition="soft"):
        pass
    assert seen["group"] == "paper" and seen["job_type"] == "train-soft" and seen["name"] == "train-soft qwen3_14b soft"
    assert seen["tags"] == ["train-soft", "qwen3_14b", "soft"] and seen["id"] == record.identity[:16]
    assert seen["config"]["parameters"] == {"rank": 16}
    assert seen["config"]["provenance"]["inputs_sha256"] == record.inputs


TRAINING = """\
import sys, time
from pathlib import Path
from pipeline.config.params import TrackingConfig
from pipeline.record.tracking import tracked_run

first, last, hang = map(int, sys.argv[1:])
with tracked_run(TrackingConfig(mode="offline", project="p"), name="train", group="demo", job_type="train-soft",
                 id="b" * 16, config={"rank": 16}, tags=["m"]) as run:
    for step in range(first, last + 1):
        run.log({"train/loss": 1 / step}, step=step)
    Path("logged").touch()
    time.sleep(600 if hang else 0)
    run.log({"final_loss": 0.125})
"""


def sync() -> None:
    """What `make wandb-sync` runs."""
    environment = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}
    subprocess.run([sys.executable, "-m", "wandb", "sync", "--yes"], env=environment, check=True, capture_output=True)


def start_training(first: int, last: int, hang: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", TRAINING, *map(str, (first, last, hang))])


def test_a_killed_run_goes_on_and_is_sent_once(monkeypatch, directory):
    """Killed at step 7, resumed from the checkpoint of step 4: one run on the server, every step once."""
    training = start_training(1, 7, hang=1)
    wait_until(Path("logged").exists, training)
    # What W&B has not flushed when it is killed is lost; a second is how long it waits.
    time.sleep(3 * FLUSH_SECONDS)
    training.send_signal(signal.SIGKILL)
    training.wait()
    # The resumed loop reports its restored log first, as `fit` does.
    assert start_training(1, 9, hang=0).wait() == 0
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        sync()
        assert list(server.runs) == ["b" * 16]
        run = server.runs["b" * 16]
        assert run.steps == list(range(1, 10)) and run.summary["final_loss"] == 0.125
        assert run.variables["groupName"] == "demo" and run.variables["jobType"] == "train-soft"
        assert run.variables["tags"] == ["m"]
    assert not list(Path("wandb").glob("*.step"))


def test_online_runs_resume_behind_the_servers_last_step(monkeypatch, directory):
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        for last in (3, 5):
            with opened() as run:
                for step in range(1, last + 1):
                    run.log({"loss": 1 / step}, step=step)
        assert server.runs["a" * 16].steps == [1, 2, 3, 4, 5]
