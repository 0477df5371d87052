"""One run at a time: refusal, release by death, and nothing touched by the one that is refused."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.artifacts.locks import exclusive
from pipeline.errors import BusyError, ConfigError
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

HOLDER = (
    "import sys, pathlib; from pipeline.artifacts.locks import exclusive\n"
    "with exclusive(pathlib.Path(sys.argv[1]), 'train-soft tiny'):\n"
    "    print('held', flush=True); sys.stdin.readline()"
)


@pytest.fixture
def start():
    """Starts a process that holds a directory's lock until it is written to or killed."""
    processes = []

    def hold(directory: Path) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in processes:
        process.kill()
        process.wait()


def test_the_second_is_refused_and_told_by_whom(start, tmp_path):
    directory = tmp_path / "unfinished" / "train"
    holder = start(directory)
    directory.mkdir()
    (directory / "state").write_text("kept")
    with pytest.raises(BusyError) as refused, exclusive(directory, "train-soft tiny"):
        raise AssertionError("two at once")
    assert re.fullmatch(
        rf"train-soft tiny is already running \(process {holder.pid} on {re.escape(socket.gethostname())}, since "
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\) and works in {re.escape(str(directory))}; "
        "wait for it or end it first",
        str(refused.value),
    )
    assert (directory / "state").read_text() == "kept"
    # The refused one has not spoiled the holder's entry either.
    with pytest.raises(BusyError, match=f"process {holder.pid} "), exclusive(directory, "train-soft tiny"):
        pass
    holder.communicate("\n")
    with exclusive(directory, "train-soft tiny"):
        assert (directory / "state").read_text() == "kept"
    assert os.listdir(tmp_path / "unfinished") == ["train"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_death_releases_the_lock(start, tmp_path, number):
    directory = tmp_path / "work"
    holder = start(directory)
    holder.send_signal(number)
    holder.wait()
    assert (tmp_path / "work.lock").exists()
    refused = pytest.raises(BusyError, match=f"process {os.getpid()} ")
    with exclusive(directory, "again"), refused, exclusive(directory, "again"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, number):
    def refuse(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    refused = pytest.raises(ConfigError, match=r"work\.lock: the file system has no locks .* set `artifacts` to")
    with refused, exclusive(tmp_path / "work", "x"):
        pass


def test_other_directories_are_free(start, tmp_path):
    start(tmp_path / "a")
    with exclusive(tmp_path / "b", "other"), exclusive(tmp_path / "a" / "inner", "other"):
        pass


CONTENDER = (
    "import sys, pathlib, os, time; from pipeline.errors import BusyError\n"
    "from pipeline.artifacts.locks import exclusive\n"
    "root = pathlib.Path(sys.argv[1]); wins = 0; end = time.monotonic() + 1.5\n"
    "while time.monotonic() < end:\n"
    "    try:\n"
    "        with exclusive(root / 'work', 'x'):\n"
    "            wins += 1\n"
    "            os.close(os.open(root / 'inside', os.O_CREAT | os.O_EXCL)); os.unlink(root / 'inside')\n"
    "    except BusyError: pass\n"
    "print(wins)"
)


def test_never_two_at_once_although_the_lock_file_comes_and_goes(tmp_path):
    contenders = [
        subprocess.Popen([sys.executable, "-c", CONTENDER, str(tmp_path)], cwd=ROOT, text=True, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    wins = [int(contender.communicate()[0]) for contender in contenders]
    assert all(contender.returncode == 0 for contender in contenders) and sum(wins) > 50
    assert os.listdir(tmp_path) == []
