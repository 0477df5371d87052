"""A file system that is full, limited or forbidden: one sentence, nothing lost, nothing left over."""

import argparse
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.json_lines import write_json_lines
from pipeline.artifacts.storage import read_table, write_json, write_table
from pipeline.artifacts.tries import write_tries
from pipeline.command import run_command
from pipeline.core.tries.trie import build_trie
from pipeline.errors import ArtifactError, StorageError, storage_error
from tests.conftest import ROOT
from tests.forked import in_child

pytestmark = pytest.mark.slow


def _tries(path: Path, size: int) -> None:
    sequences = [[*map(int, str(number))] for number in range(size)]
    write_tries(path, {"p": build_trie(sequences, np.full(size, 1 / size), 10)}, 10)


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "json": lambda path, size: write_json(path, list(range(size))),
    "lines": lambda path, size: write_json_lines(path, ({"n": n} for n in range(size))),
    "table": lambda path, size: write_table(path, pd.DataFrame({"x": np.random.default_rng(0).random(size)})),
    "tries": _tries,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_may_not_grow(tmp_path, name):
    target = tmp_path / "target"
    WRITERS[name](target, 10)
    before = [path.read_bytes() for path in (target, *sorted(target.rglob("*"))) if path.is_file()]

    def work():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(StorageError) as refused:
            WRITERS[name](target, 50_000)
        assert "/target" in str(refused.value) and ".partial" not in str(refused.value)

    assert in_child(work) == 0
    after = [path.read_bytes() for path in (target, *sorted(target.rglob("*"))) if path.is_file()]
    assert after == before and os.listdir(tmp_path) == ["target"]
    WRITERS[name](target, 11)


@pytest.mark.parametrize("name", WRITERS)
def test_permission_denied(tmp_path, name):
    target = tmp_path / "inner" / "target"
    WRITERS[name](target, 10)

    def work():
        if os.geteuid() == 0:  # whom no permission binds
            for directory in (target.parent, *target.parent.parents[:4]):
                directory.chmod(0o755)
            os.setresuid(65534, 65534, 65534)
        else:
            target.parent.chmod(0o555)
            target.chmod(0o444 if target.is_file() else 0o555)
        with pytest.raises(StorageError, match="target: permission denied; give the account of this run access"):
            WRITERS[name](target, 11)

    assert in_child(work) == 0
    target.parent.chmod(0o755)
    assert os.listdir(target.parent) == ["target"]


def test_a_file_that_may_not_be_read_is_not_called_truncated(tmp_path, monkeypatch):
    write_table(tmp_path / "t.parquet", pd.DataFrame({"x": [1]}))
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "x")))
    with pytest.raises(StorageError, match=r"t\.parquet: permission denied"):
        read_table(tmp_path / "t.parquet", ["x"])
    monkeypatch.undo()
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match="truncated"):
        read_table(tmp_path / "t.parquet", ["x"])


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EDQUOT, "x"), errno.EDQUOT),
        (OSError("1000 requested and 12 written"), errno.ENOSPC),
        (Exception("No space left on device (os error 28)"), errno.ENOSPC),
        (RuntimeError("IoError(Os { code: 28, kind: StorageFull })"), errno.ENOSPC),
        (ValueError("code: 28 of the table"), errno.ENOSPC),
        (OSError(errno.ECONNREFUSED, "x"), None),
        (OSError("nothing"), None),
        (ValueError("bad"), None),
        (ArtifactError("[Errno 28]"), None),
        (PermissionError(errno.EACCES, "a socket"), None),
        (sqlite3.OperationalError("near: syntax"), None),
    ],
)
def test_what_counts_as_an_error_of_storage(error, number):
    found = storage_error(error)
    assert (found and found.number) == number


def test_a_circle_of_causes_is_no_error_of_storage():
    error = KeyError("text")
    error.__cause__ = error
    assert storage_error(error) is None


def run(main: Callable[[], None]) -> int:
    """Exit status of a stage."""
    with pytest.raises(SystemExit) as stopped:
        run_command(main, argparse.Namespace())
    return stopped.value.code


def raising(error: BaseException) -> Callable[[], None]:
    def main():
        raise error

    return main


def test_other_errors_keep_their_traceback(capsys):
    for error in (ValueError("defect"), OSError(errno.ECONNREFUSED, "refused"), FileNotFoundError(2, "no", "x")):
        with pytest.raises(type(error)):
            run_command(raising(error), argparse.Namespace())
    assert run(raising(OSError(errno.ENOSPC, "No space left on device", "/somewhere/model"))) == 1
    assert capsys.readouterr().err == (
        "error: /somewhere/model: no space left on device; free some space (`dvc gc -w` drops cached results that the "
        "workspace does not use); what was there is unchanged, and the next run continues\n"
    )
    cause = OSError(errno.EDQUOT, "Disk quota exceeded", "/home/x")
    wrapped = RuntimeError("saving failed")
    wrapped.__cause__ = cause
    assert run(raising(wrapped)) == 1 and "/home/x: disk quota exceeded" in capsys.readouterr().err


def test_sigterm_ends_a_stage_in_order(tmp_path):
    code = (
        "import argparse, pathlib, sys, time\n"
        "from pipeline.artifacts.atomic import atomic_path\n"
        "from pipeline.command import run_command\n"
        "from pipeline.stages.resumable import ResumableMap, one_by_one\n"
        "def main(root):\n"
        "    with atomic_path(root / 'output') as temporary:\n"
        "        temporary.write_text('half')\n"
        "        slow = one_by_one(lambda n: print(n, flush=True) or time.sleep(0.01))\n"
        "        ResumableMap(root / 'rows.jsonl')({str(n): n for n in range(10**5)}, slow)\n"
        "run_command(main, argparse.Namespace(root=pathlib.Path(sys.argv[1])))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 143
    assert errors == "terminated; finished parts are kept and the next run resumes\n"
    assert os.listdir(tmp_path) == ["rows.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) >= 4 and rows == [{str(n): None} for n in range(len(rows))]
