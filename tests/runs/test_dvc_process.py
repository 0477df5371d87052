"""DVC's list of running stages after a kill, before and after it is cleared, as DVC itself reads it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.fs import localfs
from dvc.rwlock import RWLockFileCorruptedError, rwlock

from pipeline.runs.dvc_process import forget_dead_processes


def take(workspace: Path) -> None:
    """What DVC does before it runs a stage that writes out.txt."""
    with rwlock(str(workspace / ".dvc" / "tmp"), localfs, "dvc repro", [], [str(workspace / "out.txt")], False):
        pass


@pytest.fixture
def listing(tmp_path) -> Path:
    path = tmp_path / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True)
    return path


def held(workspace: Path, process_id: int) -> str:
    holder = {"pid": process_id, "cmd": "dvc repro"}
    return json.dumps({"write": {str(workspace / "out.txt"): holder}, "read": {str(workspace / "in.txt"): [holder]}})


@pytest.fixture
def zombie():
    """Process id of a child that has ended and was not waited for."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def test_a_half_written_list_is_cleared(listing, tmp_path):
    listing.write_text('{"write": {"/a": {"pi')
    with pytest.raises(RWLockFileCorruptedError):
        take(tmp_path)
    forget_dead_processes(tmp_path)
    take(tmp_path)


def test_a_process_that_nobody_waited_for_is_forgotten(listing, tmp_path, zombie):
    listing.write_text(held(tmp_path, zombie))
    with pytest.raises(Exception, match="is busy"):
        take(tmp_path)
    forget_dead_processes(tmp_path)
    take(tmp_path)


def test_a_running_process_is_left_alone(listing, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        listing.write_text(held(tmp_path, other.pid))
        forget_dead_processes(tmp_path)
        with pytest.raises(Exception, match="is busy"):
            take(tmp_path)
        other.communicate(b"\n")


def test_no_list_is_no_work(tmp_path):
    forget_dead_processes(tmp_path)
    assert not (tmp_path / ".dvc").exists()
