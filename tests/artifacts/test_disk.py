"""A file system that is full, read-only or forbidden: one sentence, nothing lost, nothing left over."""

import argparse
import contextlib
import ctypes
import errno
import importlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.command import run_command
from pipeline.errors import ArtifactError, StorageError, storage_error
from tests.artifacts.test_atomic import snapshot
from tests.conftest import ROOT
from tests.forked import ForkedModule, in_child

pytestmark = pytest.mark.slow

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
"""Flags of unshare(2), which Python has from 3.12 on."""
FORBIDDEN = 77
BYTES = 1 << 20
"""Size of the file system of the tests: a tmpfs in a mount namespace of its own."""


def _json(path: Path, size: int) -> None:
    from pipeline.artifacts.storage import write_json

    write_json(path, list(range(size)))


def _table(path: Path, size: int) -> None:
    import numpy as np
    import pandas as pd

    from pipeline.artifacts.storage import write_table

    write_table(path, pd.DataFrame({"x": np.random.default_rng(0).random(size)}))


def _spaces(path: Path, size: int) -> None:
    from pipeline.artifacts.output_spaces import write_output_spaces
    from pipeline.core.laws.discretize import discretize
    from pipeline.core.laws.family import Law

    law = Law("norm", {"loc": 0.0, "scale": float(size)})
    space = discretize(law, num_decimals=2, max_bins=min(size, 16384))
    write_output_spaces(path, {f"p{number}": space for number in range(1 + size // 1000)})


def _tries(path: Path, size: int) -> None:
    import numpy as np

    from pipeline.artifacts.tries import write_tries
    from pipeline.core.tries.trie import build_trie

    sequences = [[*map(int, str(number))] for number in range(size)]
    write_tries(path, {"p": build_trie(sequences, np.full(len(sequences), 1 / len(sequences)), 10)}, 10)


def _directory(path: Path, size: int) -> None:
    from pipeline.artifacts.atomic import atomic_directory
    from pipeline.artifacts.storage import write_json

    with atomic_directory(path) as directory:
        (directory / "first").write_text("1")
        write_json(directory / "second.json", list(range(size)))


def _entries(path: Path, size: int) -> None:
    from pipeline.artifacts.atomic import atomic_entries

    with atomic_entries(path) as directory:
        (directory / "table.md").write_text("x" * size * 10)


def _checkpoint(path: Path, size: int) -> None:
    import torch

    from pipeline.engines.training.fit import Checkpoint

    parameter = torch.nn.Parameter(torch.ones(4 * size))
    Checkpoint(path).save(1, {"weight": parameter}, torch.optim.AdamW([parameter]), [])


def _arrays(path: Path, size: int) -> None:
    import numpy as np

    from pipeline.artifacts.atomic import atomic_path

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, x=np.arange(size, dtype=np.float64))


def _array(path: Path, size: int) -> None:
    import numpy as np

    from pipeline.artifacts.atomic import atomic_path

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, np.arange(size, dtype=np.float64))


def _tokenizer(path: Path, size: int) -> None:
    from tokenizers import Tokenizer, models

    from pipeline.artifacts.atomic import atomic_directory

    with atomic_directory(path) as directory:
        vocabulary = {f"token{number}": number for number in range(size)}
        Tokenizer(models.WordLevel(vocabulary, unk_token="token0")).save(str(directory / "tokenizer.json"))


def _journal(path: Path, size: int) -> None:
    from pipeline.artifacts.journal import Journal

    Journal(path).append({"n": number} for number in range(size))


def _cache(path: Path, size: int) -> None:
    from pipeline.artifacts.score_cache import ScoreCache

    cache = ScoreCache(path)
    try:
        cache.add({number.to_bytes(32): 1.0 for number in range(size)})
    finally:
        cache.close()


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "json": _json,
    "table": _table,
    "spaces": _spaces,
    "tries": _tries,
    "directory": _directory,
    "entries": _entries,
    "checkpoint": _checkpoint,
    "array": _array,
    "arrays": _arrays,
    "tokenizer": _tokenizer,
    "journal": _journal,
    "cache": _cache,
}


def attempt(name: str, path: Path, size: int) -> str:
    """The error's message, "" if there was none, or what else was raised."""
    try:
        WRITERS[name](path, size)
    except StorageError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def stage(params: Path, output: Path) -> dict:
    """What a real stage says and returns."""
    tables = [f"--{name}={output / name}.parquet" for name in ("train", "unseen", "ood", "open", "mcq")]
    command = ["pipeline.stages.build_structured_prompts", "--params", str(params), *tables]
    said = [params.with_name(name) for name in ("stderr", "stdout")]
    status = ForkedModule(command, ROOT, *said).wait()
    return {"status": status, **{path.name: path.read_text() for path in said}}


def enter_namespace() -> None:
    """Leave this process's mounts to it alone, as ``unshare -rm`` does. Raises OSError where that is forbidden."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(content)


def inside(directory: Path, params: Path) -> None:
    """In the namespace: try every writer on the full file system, then on the read-only one; write the outcomes."""
    outcomes: dict = {"full": {}, "read-only": {}}
    for name in WRITERS:
        (directory / name).mkdir()
        target = directory / name / "target"
        outcomes["full"][name] = {"first": attempt(name, target, 10)}
        before = snapshot(target)
        outcomes["full"][name]["second"] = attempt(name, target, 200_000)
        outcomes["full"][name]["kept"] = snapshot(target) == before or (name == "cache" and target.exists())
        outcomes["full"][name]["left"] = os.listdir(target.parent)
        outcomes["full"][name]["third"] = attempt(name, target, 11)
        shutil.rmtree(target.parent)
    blocks = directory / "blocks"
    with contextlib.suppress(OSError), blocks.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    outcomes["stage"] = stage(params, directory / "prompts") | {"left": sorted(os.listdir(directory))}
    blocks.unlink()
    outcomes["room"] = stage(params, directory / "prompts")
    subprocess.run(["mount", "-o", "remount,ro", str(directory)], check=True)
    for name in WRITERS:
        outcomes["read-only"][name] = attempt(name, directory / name, 10)
    outcomes["stage read-only"] = stage(params, directory / "prompts2")
    params.with_name("outcomes.json").write_text(json.dumps(outcomes))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    directory, params = tmp_path_factory.mktemp("full"), tmp_path_factory.mktemp("params") / "params.yaml"
    shutil.copy(ROOT / "params.yaml", params)
    # Loaded here once, for the children as well.
    importlib.import_module("pipeline.engines.training.fit")
    importlib.import_module("pipeline.stages.build_structured_prompts")

    def work():
        try:
            enter_namespace()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "tmpfs", str(directory)], check=True)
        except (OSError, subprocess.CalledProcessError):
            sys.exit(FORBIDDEN)
        inside(directory, params)

    status = in_child(work)
    if status == FORBIDDEN:
        pytest.skip("this machine forbids mounting a small file system in a namespace of its own")
    assert status == 0
    return json.loads(params.with_name("outcomes.json").read_text())


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(outcomes, name):
    found = outcomes["full"][name]
    assert found["first"] == "" and found["third"] == ""
    assert "/target" in found["second"] and "no space left on device; free some space" in found["second"]
    assert ".partial" not in found["second"] and "\n" not in found["second"]
    # SQLite undoes a broken transaction when the file is opened next, from the journal beside it.
    assert found["kept"] and set(found["left"]) - ({"target-journal"} if name == "cache" else set()) == {"target"}


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_file_system(outcomes, name):
    message = outcomes["read-only"][name]
    assert f"/{name}: " in message and ".partial" not in message
    assert "read-only file system; mount" in message or (name == "cache" and "permission denied" in message)


def test_a_stage_on_a_full_or_read_only_file_system(outcomes):
    for kind, reason in (("stage", "no space left on device"), ("stage read-only", "read-only file system")):
        found = outcomes[kind]
        assert found["status"] == 1 and found["stdout"] == ""
        assert found["stderr"].startswith("error: ") and reason in found["stderr"]
        assert found["stderr"].count("\n") == 1
    assert outcomes["stage"]["left"] in (["blocks"], ["blocks", "prompts"])
    assert outcomes["room"]["status"] == 0


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "checkpoint"])
def test_permission_denied(name):
    directory = Path(tempfile.mkdtemp())
    try:
        directory.chmod(0o755)
        target = directory / "target"
        WRITERS[name](target, 10)
        before = snapshot(target)

        def work():
            if os.geteuid() == 0:  # whom no permission binds
                os.setresuid(65534, 65534, 65534)
            else:
                directory.chmod(0o555)
                for path in [target, *target.rglob("*")]:
                    path.chmod(0o444)
            message = attempt(name, target, 11)
            assert "target: permission denied; give the account of this run access" in message, message

        assert in_child(work) == 0
        assert snapshot(target) == before and os.listdir(directory) == ["target"]
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_file_that_may_not_be_read_is_not_called_truncated(tmp_path, monkeypatch):
    from pipeline.artifacts.storage import read_table

    _table(tmp_path / "t.parquet", 10)
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
        "from pipeline.artifacts.journal import Journal\n"
        "from pipeline.artifacts.locks import scratch\n"
        "def main(root):\n"
        "    with scratch(root / 'unfinished', 'work'):\n"
        "        journal = Journal(root / 'unfinished' / 'rows.jsonl')\n"
        "        with atomic_path(root / 'output') as temporary:\n"
        "            temporary.write_text('half')\n"
        "            for n in range(10**6):\n"
        "                journal.append([{'n': n}]); print(n, flush=True); time.sleep(0.01)\n"
        "run_command(main, argparse.Namespace(root=pathlib.Path(sys.argv[1])))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 143 and time.monotonic() - started < 300
    assert errors == "terminated; finished parts are kept and the next run resumes\n"
    assert os.listdir(tmp_path) == ["unfinished"]
    rows = [json.loads(line) for line in (tmp_path / "unfinished" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) >= 5 and rows == [{"n": n} for n in range(len(rows))]
