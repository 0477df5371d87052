"""W&B: mode by credentials, nothing when disabled, a readable offline run."""

import json

import pandas as pd
import pytest

from pipeline.config import TrackingConfig
from pipeline.provenance import StageRecord
from pipeline.tracking import tracked_run, tracking_mode


@pytest.mark.parametrize(
    ("mode", "environment", "key", "expected"),
    [
        ("auto", None, None, "offline"),
        ("auto", None, "k", "online"),
        ("offline", None, "k", "offline"),
        ("auto", "disabled", "k", "disabled"),
    ],
)
def test_mode(monkeypatch, tmp_path, mode, environment, key, expected):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in (("WANDB_MODE", environment), ("WANDB_API_KEY", key)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    assert tracking_mode(TrackingConfig(mode=mode, project="p")) == expected


def test_disabled_accepts_everything(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    config = TrackingConfig(mode="auto", project="p")
    with tracked_run(config, name="n", group="g", job_type="j", identity="i" * 64, settings={}) as run:
        run.log({"a": 1.0}, step=1)
        run.table("t", pd.DataFrame({"a": [1]}))
        run.image("i", "nowhere.png")


def test_offline_run_holds_the_table(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    config = TrackingConfig(mode="auto", project="p")
    with tracked_run(config, name="n", group="g", job_type="j", identity="a" * 64, settings={"x": 1}) as run:
        run.log({"loss": 0.5}, step=1)
        run.table("metrics", pd.DataFrame({"metric": ["w"], "value": [0.25]}))
    (table,) = tmp_path.glob("wandb/offline-run-*/files/media/table/*.json")
    assert json.loads(table.read_text())["data"] == [["w", 0.25]]


def test_identity_is_of_contents_not_of_paths(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    first, same, other = (StageRecord("s", {"p": 1}, [tmp_path / name]).identity for name in "abc")
    assert first == same != other
    assert StageRecord("s", {"p": 2}, [tmp_path / "a"]).identity != first
