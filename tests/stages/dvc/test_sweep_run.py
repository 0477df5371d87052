"""A real sweep on the tiny model: cells that finish, fail, are skipped, are busy; three launchers; an interruption."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

from pipeline.sweep.run import read_record
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def start(environment, tiny_model, tmp_path_factory):
    """Starts a sweep over terminators; there is no token "nothing", so that its cell fails in check_model.

    A Python of its own is for what a forked one does not do: take signals, end joblib's workers.
    """
    directory = tmp_path_factory.mktemp("launched") / "sweeps"

    def start(*arguments: str, python: str = "python") -> subprocess.Popen:
        return subprocess.Popen(
            [
                python,
                "-m",
                "pipeline.sweep",
                *TINY_OVERRIDES,
                f"models.embedded.checkpoint={tiny_model}",
                "prompts.families=[gaussian,bernoulli]",
                f"sweep.directory={directory}",
                "sweep.targets=['eval-mcq@{model}']",
                "conditions=[base]",
                *arguments,
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    start.sweep = directory / "chosen"
    return start


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    printed, errors = process.communicate(timeout=900)
    return process.returncode, printed, errors


BOTH = "models.embedded.terminator=eos,nothing"


@pytest.fixture(scope="module")
def first(start):
    return finish(start("-m", BOTH))


def records(sweep: Path) -> dict[str, tuple[Path, str]]:
    found = [read_record(path) for path in sweep.glob("*/record.json")]
    return {record.status: (Path(record.cell), record.stage) for record in found}


def test_a_cell_that_fails_does_not_stop_the_others(start, first):
    status, printed, errors = first
    assert status == 1, printed + errors
    found = records(start.sweep)
    assert set(found) == {"finished", "failed"} and found["failed"][1] == "check-model@embedded"
    failed, log = found["failed"][0], found["failed"][0] / "run.log"
    line = next(line for line in errors.splitlines() if line.startswith("failed "))
    assert line.startswith(f"failed {failed.name} [") and "models.embedded.terminator=nothing" in line
    assert "]: stage check-model@embedded: error: " in line and line.endswith(f"log: {log}")
    assert "Running stage 'check-model@embedded'" in log.read_text()
    assert "1 failed, 1 finished" in printed
    summary = pd.read_csv(start.sweep / "summary.csv").set_index("models.embedded.terminator")
    assert summary["status"].to_dict() == {"eos": "finished", "nothing": "failed"}
    metrics = pd.read_csv(start.sweep / "metrics.csv")
    assert set(metrics["models.embedded.terminator"]) == {"eos"} and "mcq_parse_rate" in set(metrics["metric"])


def test_finished_cells_are_skipped_without_dvc_under_other_launchers(start, first):
    finished = records(start.sweep)["finished"][0]
    log = (finished / "run.log").read_text()
    for launcher in ("basic", "submitit_local"):
        status, printed, errors = finish(start("-m", "models.embedded.terminator=eos", f"hydra/launcher={launcher}"))
        assert status == 0 and "1 skipped" in printed, printed + errors
        assert any(line.split()[:2] == [finished.name, "skipped"] for line in printed.splitlines())
    assert (finished / "run.log").read_text() == log


def working_in(directory: Path) -> list[psutil.Process]:
    """Processes whose current directory it is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(directory):
                found.append(process)
    return found


def test_interrupted_cells_go_on_where_they_were(start, first):
    numbers = {"basic": signal.SIGINT, "joblib": signal.SIGTERM}
    processes = {
        launcher: start("-m", f"seed={int(number)}", f"hydra/launcher={launcher}", python=sys.executable)
        for launcher, number in numbers.items()
    }

    def logs(launcher):
        seed = f"seed={int(numbers[launcher])}"
        return [path for path in start.sweep.glob("*/run.log") if seed in path.read_text()]

    at_work = set(processes)

    def all_have_their_signals():
        for launcher in sorted(at_work):
            if any("Running stage 'check-model@embedded'" in log.read_text() for log in logs(launcher)):
                processes[launcher].send_signal(numbers[launcher])
                at_work.remove(launcher)
        return not at_work or any(processes[launcher].poll() is not None for launcher in at_work)

    wait_until(all_have_their_signals)
    interrupted = {}
    for launcher, process in processes.items():
        status, printed, errors = finish(process)
        assert status == 130 and "interrupted" in errors, printed + errors
        (interrupted[int(numbers[launcher])],) = logs(launcher)
    for log in interrupted.values():
        cell = log.parent
        # Nothing of it is left running, and DVC has noted what was done.
        wait_until(lambda cell=cell: not working_in(cell))
        assert not (cell / "finished.json").exists()
        assert "build-prompts" in yaml.safe_load((cell / "dvc.lock").read_text())["stages"]
        for name, text in {".dvc/tmp/rwlock": "{", "dvc.lock": ""}.items():
            (cell / name).write_text(text)  # as a DVC leaves it that is killed while it writes
    status, printed, errors = finish(start("-m", f"seed={','.join(map(str, interrupted))}"))
    shown = printed + errors + "".join(map(Path.read_text, interrupted.values()))
    assert status == 0 and "2 finished" in printed, shown
    for log in interrupted.values():
        assert log.read_text().count("Running stage 'build-prompts'") == 1
