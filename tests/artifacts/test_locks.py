"""One run at a time: refusal, release by death, and nothing touched by the one that is refused."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys

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
def holder(tmp_path):
    """A process that holds the lock of ``work`` until it is written to or killed."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "work")]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_is_refused_and_told_by_whom(holder, tmp_path):
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "state").write_text("kept")
    # The refused one does not spoil the holder's entry either.
    for _ in range(2):
        with pytest.raises(BusyError) as refused, exclusive(directory, "train-soft tiny"):
            raise AssertionError("two at once")
        assert re.fullmatch(
            rf"train-soft tiny is already running \(process {holder.pid} on {re.escape(socket.gethostname())}, since "
            rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\) and works in {re.escape(str(directory))}; "
            "wait for it or end it first",
            str(refused.value),
        )
    with exclusive(tmp_path / "other", "other"), exclusive(directory / "inner", "other"):
        pass
    holder.communicate("\n")
    with exclusive(directory, "train-soft tiny"):
        assert (directory / "state").read_text() == "kept"
    assert os.listdir(tmp_path) == ["work"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_death_releases_the_lock(holder, tmp_path, number):
    directory = tmp_path / "work"
    holder.send_signal(number)
    holder.wait()
    assert (tmp_path / "work.lock").exists()
    refused = pytest.raises(BusyError, match=f"process {os.getpid()} ")
    with exclusive(directory, "again"), refused, exclusive(directory, "again"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    refused = pytest.raises(ConfigError, match=r"work\.lock: the file system has no locks .* set `artifacts` to")
    with refused, exclusive(tmp_path / "work", "x"):
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
    command = [sys.executable, "-c", CONTENDER, str(tmp_path)]
    contenders = [subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) for _ in range(3)]
    wins = [int(contender.communicate()[0]) for contender in contenders]
    assert all(contender.returncode == 0 for contender in contenders) and sum(wins) > 50
    assert os.listdir(tmp_path) == []
