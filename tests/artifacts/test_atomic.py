"""Files and directories are replaced as a whole or not at all, whoever dies, fails or writes beside it."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.artifacts.atomic import atomic_directory, atomic_entries, atomic_path
from pipeline.errors import StorageError
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def snapshot(path: Path) -> object:
    """A file's text, or a directory's content by name."""
    if path.is_dir():
        return {entry.name: snapshot(entry) for entry in sorted(path.iterdir())}
    return path.read_text()


def write_file(path: Path, content: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(content)


def write_folder(path: Path, content: str) -> None:
    with atomic_directory(path) as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / content).write_text(content)


def write_entries(path: Path, content: str) -> None:
    with atomic_entries(path) as temporary:
        (temporary / "file").write_text(content)
        write_folder(temporary / "folder", content)


WRITERS = {
    "file": (write_file, lambda content: content),
    "directory": (write_folder, lambda content: {"deep": {content: content}}),
    "entries": (write_entries, lambda content: {"file": content, "folder": {"deep": {content: content}}}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_content_is_replaced_as_a_whole_and_nothing_is_left_over(tmp_path, name):
    write, content = WRITERS[name]
    for text in ("old", "new"):
        write(tmp_path / "a" / "target", text)
        assert snapshot(tmp_path / "a") == {"target": content(text)}


def test_entries_leave_the_others_alone(tmp_path):
    (tmp_path / "kept").write_text("kept")
    for text in ("old", "new"):
        write_entries(tmp_path, text)
    assert snapshot(tmp_path) == {"kept": "kept", **WRITERS["entries"][1]("new")}


@pytest.mark.parametrize("place", [atomic_path, atomic_directory, atomic_entries])
def test_a_failure_leaves_what_was_there(tmp_path, place):
    write_folder(tmp_path / "target", "old")
    with pytest.raises(ZeroDivisionError), place(tmp_path / "target") as temporary:
        (temporary if temporary.is_file() else temporary / "x").write_text("half")
        raise ZeroDivisionError
    assert snapshot(tmp_path) == {"target": {"deep": {"old": "old"}}}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("refused", range(3))
def test_a_refused_rename_leaves_the_old_content(tmp_path, monkeypatch, name, refused):
    """The first to put the old directory aside, the second to put the new one into its place."""
    write, content = WRITERS[name]
    write(tmp_path / "target", "old")
    calls, replace = [], os.replace

    def refuse(source, target):
        if Path(target).parent == tmp_path or Path(source).parent == tmp_path:
            calls.append(target)
            if len(calls) == refused + 1:
                raise OSError(errno.ENOSPC, "No space left on device", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    if refused >= {"file": 1, "directory": 2, "entries": 0}[name]:
        write(tmp_path / "target", "new")
        assert snapshot(tmp_path) == {"target": content("new")}
    else:
        with pytest.raises(StorageError, match="target.*: no space left on device"):
            write(tmp_path / "target", "new")
        assert snapshot(tmp_path) == {"target": content("old")}


@pytest.mark.parametrize("inside", ["", "deep/file"])
def test_errors_name_the_target_and_not_the_hidden_place(tmp_path, inside):
    with pytest.raises(StorageError) as refused, atomic_directory(tmp_path / "target") as temporary:
        raise OSError(errno.ENOSPC, "No space left on device", str(temporary / inside))
    assert refused.value.path == str(tmp_path / "target" / inside)
    with pytest.raises(StorageError, match=r"^/elsewhere: permission"), atomic_path(tmp_path / "target"):
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere")
    (tmp_path / "target").mkdir()
    (tmp_path / ".target.lock").mkdir()  # where the lock's file should be
    with pytest.raises(OSError, match="target"), atomic_path(tmp_path / "target"):
        pass


def start_slow_writer(target: Path) -> subprocess.Popen:
    code = (
        "import sys, pathlib; from pipeline.artifacts.atomic import atomic_directory\n"
        "with atomic_directory(pathlib.Path(sys.argv[1])) as d:\n"
        "    (d / 'x').write_text('slow'); print('ready', flush=True); sys.stdin.readline()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_next_writer_waits_for_one_that_lives(tmp_path):
    slow = start_slow_writer(tmp_path / "target")
    started = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys, time; time.sleep(0.5); sys.stdout.write('go\\n')"], stdout=slow.stdin
    ):
        write_folder(tmp_path / "target", "quick")
    assert time.monotonic() - started > 0.4 and slow.wait() == 0
    assert snapshot(tmp_path) == {"target": {"deep": {"quick": "quick"}}}


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    killed = start_slow_writer(tmp_path / "target")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "target").exists() and os.listdir(tmp_path)
    write_folder(tmp_path / "target", "new")
    assert snapshot(tmp_path) == {"target": {"deep": {"new": "new"}}}


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "file") as temporary:
            temporary.unlink()
            temporary.touch(mode=0o600)  # as some libraries do
        write_folder(tmp_path / "folder", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750
