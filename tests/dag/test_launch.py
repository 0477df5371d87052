"""Several processes from one command: they find each other, and end together."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.forked import ForkedModule
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

LAUNCHED = """
import os, signal, sys, time
from pathlib import Path
from pipeline.command import run_command
from pipeline.dag.launch import DIRECTORY, launch, run_launched
from pipeline.errors import ConfigError

def work():
    rank = os.environ["RANK"]
    print("shown by", rank, flush=True)
    Path(rank + ".new").write_text(f"{os.getpid()} {os.environ['WORLD_SIZE']} {os.environ['OMP_NUM_THREADS']}")
    os.rename(rank + ".new", rank)
    while not all(Path(other).exists() for other in "01"):
        time.sleep(0.01)
    BODY

if DIRECTORY in os.environ:
    run_launched(work)
else:
    run_command(lambda: launch("launched", [], 2))
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts the launcher of two processes that do ``body``."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    def started(body) -> ForkedModule:
        (tmp_path / "launched.py").write_text(LAUNCHED.replace("BODY", body))
        return ForkedModule(["launched"], tmp_path, tmp_path / "errors")

    yield started
    for rank in "01":
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / rank).read_text().split()[0]), 0)


def test_processes_know_their_rank(tmp_path, start):
    assert start("pass").wait() == 0
    words = [(tmp_path / rank).read_text().split() for rank in "01"]
    assert words[0][0] != words[1][0] and [word[1:] for word in words] == [["2", "3"], ["2", "3"]]


@pytest.mark.parametrize("condition", ["rank == '1'", "True"], ids=["one", "all"])
def test_an_error_of_the_user_is_the_last_thing_on_the_screen(start, condition):
    process = start(f"if {condition}: raise ConfigError('train.max_length: 4 is too small')\n    time.sleep(600)")
    assert process.wait() == 1
    assert process.errors.endswith("error: train.max_length: 4 is too small\n")


@pytest.mark.parametrize(
    ("fault", "status", "last"),
    [
        ("raise ValueError('a defect')", 1, "ValueError: a defect\nprocess 1 of 2 ended with status 1\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "last words\nprocess 1 of 2 was killed by SIGKILL\n"),
    ],
    ids=["defect", "killed"],
)
def test_another_failure_is_named_with_the_end_of_its_log(start, fault, status, last):
    body = f"if rank == '0': time.sleep(600)\n    print('last words', file=sys.stderr, flush=True)\n    {fault}"
    process = start(body)
    assert process.wait() == status
    assert process.errors.endswith(last)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGUSR1, 143), (signal.SIGINT, 130), (signal.SIGKILL, None)])
def test_a_signal_to_the_launcher_ends_all(tmp_path, start, number, status):
    process = start("time.sleep(600)")
    wait_until(lambda: all((tmp_path / rank).exists() for rank in "01"), process)
    process.send_signal(number)
    assert process.wait() == (status or -signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{(tmp_path / rank).read_text().split()[0]}").exists() for rank in "01"))
