"""A stage process that is killed outright leaves no damage and resumes to the same bytes."""

import signal
import subprocess
import sys
import time

import yaml

from tests.conftest import ROOT


def test_sigkill_during_training(dag, tmp_path):
    values = yaml.safe_load(dag.params.read_text())
    values["train"]["soft"]["epochs"] = 40
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))

    def start(name):
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline.stages.train_soft", "--params", str(params), "--model", "embedded",
             "--model-report", str(dag.root / "models" / "embedded.json"),
             "--prompts", str(dag.root / "prompts" / "train.parquet"),
             "--tries", str(dag.root / "tries" / "embedded" / "soft"),
             "--output", str(tmp_path / name / "adapter"), "--checkpoint", str(tmp_path / name / "unfinished")],
            cwd=ROOT, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    assert start("whole").wait() == 0
    killed = start("killed")
    state = tmp_path / "killed" / "unfinished" / "state.safetensors"
    deadline = time.monotonic() + 60
    while not state.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert state.exists() and not (tmp_path / "killed" / "adapter").exists()
    assert start("killed").wait() == 0
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "killed" / "adapter" / name).read_bytes() == (
            tmp_path / "whole" / "adapter" / name
        ).read_bytes()
    assert not state.exists()
