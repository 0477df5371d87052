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


def test_the_second_is_refused_and_told_by_whom_until_the_first_dies(tmp_path):
    directory = tmp_path / "work"
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == "held\n"
        # The refused one does not spoil the holder's entry either.
        for _ in range(2):
            with pytest.raises(BusyError) as refused, exclusive(directory, "train-soft tiny"):
                raise AssertionError("two at once")
            assert re.fullmatch(
                rf"train-soft tiny is already running \(process {holder.pid} on {re.escape(socket.gethostname())}, "
                rf"since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\) and works in {re.escape(str(directory))}; "
                "wait for it or end it first",
                str(refused.value),
            )
        holder.send_signal(signal.SIGKILL)
    assert (tmp_path / "work.lock").exists()
    with exclusive(directory, "again"), exclusive(tmp_path / "other", "other"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    refused = pytest.raises(ConfigError, match=r"work\.lock: the file system has no locks .* set `artifacts` to")
    with refused, exclusive(tmp_path / "work", "x"):
        pass
