"""Files and directories are replaced as a whole or not at all, whoever dies or fails, and whatever the disk refuses."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.atomic import atomic_directory, atomic_entries, atomic_path
from pipeline.artifacts.storage import write_json, write_table
from pipeline.artifacts.tries import write_tries
from pipeline.core.tries.trie import build_trie
from pipeline.errors import StorageError
from tests.conftest import ROOT
from tests.forked import in_child

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


FORMS = {
    "file": (write_file, lambda content: content),
    "directory": (write_folder, lambda content: {"deep": {content: content}}),
    "entries": (write_entries, lambda content: {"file": content, "folder": {"deep": {content: content}}}),
}


@pytest.mark.parametrize("name", FORMS)
def test_content_is_replaced_as_a_whole_and_nothing_is_left_over(tmp_path, name):
    write, content = FORMS[name]
    for text in ("old", "new"):
        write(tmp_path / "a" / "target", text)
        assert snapshot(tmp_path / "a") == {"target": content(text)}


@pytest.mark.parametrize("place", [atomic_path, atomic_directory, atomic_entries])
def test_a_failure_leaves_what_was_there(tmp_path, place):
    write_folder(tmp_path / "target", "old")
    with pytest.raises(ZeroDivisionError), place(tmp_path / "target") as temporary:
        (temporary / "x" if temporary.is_dir() else temporary).write_text("half")
        raise ZeroDivisionError
    assert snapshot(tmp_path) == {"target": {"deep": {"old": "old"}}}


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    code = (
        "import os, sys, pathlib, signal; from pipeline.artifacts.atomic import atomic_directory\n"
        "with atomic_directory(pathlib.Path(sys.argv[1])) as directory:\n"
        "    (directory / 'x').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "target")], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL and os.listdir(tmp_path) == [".target.partial"]
    write_folder(tmp_path / "target", "new")
    assert snapshot(tmp_path) == {"target": {"deep": {"new": "new"}}}


def _tries(path: Path, size: int) -> None:
    sequences = [[*map(int, str(number))] for number in range(size)]
    write_tries(path, {"p": build_trie(sequences, np.full(size, 1 / size), 10)}, 10)


WRITERS = {
    "json": lambda path, size: write_json(path, list(range(size))),
    "table": lambda path, size: write_table(path, pd.DataFrame({"x": np.random.default_rng(0).random(size)})),
    "tries": _tries,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_may_not_grow(tmp_path, name):
    target = tmp_path / "target"
    WRITERS[name](target, 10)

    def content() -> list[bytes]:
        return [path.read_bytes() for path in (target, *sorted(target.rglob("*"))) if path.is_file()]

    def work():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(StorageError) as refused:
            WRITERS[name](target, 50_000)
        assert "/target" in str(refused.value) and ".partial" not in str(refused.value)

    before = content()
    assert in_child(work) == 0
    assert content() == before and os.listdir(tmp_path) == ["target"]


def test_permission_denied(tmp_path):
    target = tmp_path / "inner" / "target"
    write_file(target, "old")

    def work():
        if os.geteuid() == 0:  # whom no permission binds
            for directory in (target.parent, *target.parent.parents[:4]):
                directory.chmod(0o755)
            os.setresuid(65534, 65534, 65534)
        else:
            target.parent.chmod(0o555)
        with pytest.raises(StorageError, match="target: permission denied; give the account of this run access"):
            write_file(target, "new")

    assert in_child(work) == 0
    target.parent.chmod(0o755)
    assert snapshot(target.parent) == {"target": "old"}
