"""Writers that die after any single operation on the file system, or are refused it, do no damage."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.artifacts.atomic import atomic_directory, atomic_entries, atomic_path, recover
from pipeline.artifacts.journal import Journal
from pipeline.errors import StorageError
from tests.conftest import ROOT
from tests.forked import fork, in_child

pytestmark = pytest.mark.slow

OPERATIONS = (
    "open",
    "close",
    "mkdir",
    "rmdir",
    "unlink",
    "replace",
    "rename",
    "fsync",
    "chmod",
    "utime",
    "truncate",
    "scandir",
    "listdir",
    "fstat",
)
CHANGES = ("open", "mkdir", "rmdir", "unlink", "replace", "fsync", "chmod")
KILLED = 77


def snapshot(path: Path) -> object:
    """A file's bytes, a directory's content by name, or None where there is nothing."""
    if path.is_dir():
        return {entry.name: snapshot(entry) for entry in sorted(path.iterdir()) if not entry.name.startswith(".")}
    return path.read_bytes() if path.exists() else None


@contextlib.contextmanager
def counted(names, act: Callable[[int, Callable], object]):
    """Call ``act`` with the number of each call of the named functions of ``os``, and the call itself."""
    calls, acting = 0, False
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            original = getattr(os, name)

            def call(*arguments, original=original, **named):
                nonlocal calls, acting
                if acting:
                    return original(*arguments, **named)
                calls, acting = calls + 1, True
                try:
                    return act(calls, lambda: original(*arguments, **named))
                finally:
                    acting = False

            patch.setattr(os, name, call)
        yield lambda: calls


def deaths(work: Callable[[], None], directory: Path, copies: Path) -> list[Path]:
    """What a writer in ``directory`` leaves that dies after an operation, whether that failed or not: a copy for each.

    A death takes the writer's locks and buffers with it, and neither is copied. The last one is of a writer that lived.
    """

    def copy(number):
        shutil.copytree(directory, copies / str(number), symlinks=True)

    def act(number, call):
        try:
            return call()
        finally:
            copy(number)

    with counted(OPERATIONS, act) as calls:
        work()
    copy(calls() + 1)
    return [copies / str(number) for number in range(1, calls() + 2)]


def write_file(path: Path, content: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(content)


def write_folder(path: Path, content: str) -> None:
    with atomic_directory(path) as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "a").write_text(content)
        (temporary / content).write_text(content)


def write_entries(path: Path, content: str) -> None:
    with atomic_entries(path) as temporary:
        (temporary / "folder").mkdir()
        (temporary / "folder" / content).write_text(content)
        (temporary / "file").write_text(content)


def folder(content: str) -> dict:
    return {"deep": {"a": content.encode()}, content: content.encode()}


def entries(content: str) -> dict:
    return {"file": content.encode(), "folder": {content: content.encode()}}


@dataclass
class Writer:
    """How something is written, and what a reader finds afterwards."""

    write: Callable[[Path, str], None]
    content: Callable[[str], object]
    others: bool = False

    def prepare(self, target: Path) -> None:
        self.write(target, "old")
        if self.others:
            (target / "kept").mkdir()
            (target / "kept" / "x").write_text("x")
            (target / "also").write_text("y")

    def kept(self) -> dict:
        return {"kept": {"x": b"x"}, "also": b"y"} if self.others else {}

    def whole(self, content: str) -> object:
        return self.content(content) | self.kept() if self.others else self.content(content)


WRITERS = {
    "file": Writer(write_file, str.encode),
    "directory": Writer(write_folder, folder),
    "entries": Writer(write_entries, entries, others=True),
}


def without(content: object, names) -> object:
    return {name: value for name, value in content.items() if name not in names} if content and names else content


@pytest.mark.parametrize("fresh", [False, True], ids=["replaced", "first"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_death_after_each_operation(tmp_path, name, fresh):
    writer, seen = WRITERS[name], set()
    (tmp_path / "written").mkdir()
    if not fresh:
        writer.prepare(tmp_path / "written" / "target")
    left = deaths(lambda: writer.write(tmp_path / "written" / "target", "new"), tmp_path / "written", tmp_path / "left")
    before, after = (None if fresh else writer.content("old")), writer.content("new")
    for root in left:
        target = root / "target"
        # What any reader finds, at once: the old, the new, or for a moment nothing; never a mixture.
        found = without(snapshot(target), writer.kept())
        assert found in ((before, after) if name == "file" else (before, after, None)), root
        # And one that looks for what is missing: the old or the new, and everything else that was there.
        recover(target)
        found = snapshot(target)
        wanted = [before if fresh else writer.whole("old"), after if fresh else writer.whole("new")]
        assert found in wanted, root
        seen.add(wanted.index(found))
        assert os.listdir(root) == (["target"] if found is not None else []), root
        writer.write(target, "next")
        assert snapshot(target) == (writer.content("next") if fresh else writer.whole("next"))
        assert os.listdir(root) == ["target"]
    assert len(left) > 11 and seen == {0, 1}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("name", WRITERS)
def test_a_refusal_of_each_operation(tmp_path, name, number):
    writer, place = WRITERS[name], 0
    outcomes = set()
    while True:
        place += 1
        root = tmp_path / str(place)
        root.mkdir()
        target = root / "target"
        writer.prepare(target)

        def act(count, call, place=place):
            if count == place:
                raise OSError(number, os.strerror(number))
            return call()

        with counted(CHANGES, act) as calls:
            try:
                writer.write(target, "new")
                outcome = "new"
            except StorageError as error:
                assert "target" in str(error) and ".partial" not in str(error) and error.number == number
                outcome = "old"
            if calls() < place:
                break
        outcomes.add(outcome)
        # A refusal in the middle of a swap is settled by the next run; until then nothing is lost.
        if os.listdir(root) != ["target"]:
            recover(target)
        assert snapshot(target) in (writer.whole("old"), writer.whole("new"))
        assert outcome == "old" or snapshot(target) == writer.whole("new")
        writer.write(target, "next")
        assert snapshot(target) == writer.whole("next") and os.listdir(root) == ["target"]
    assert outcomes == {"old", "new"}


def test_a_journal_after_each_operation(tmp_path):
    old, new = [{"n": 1, "text": "a\n"}], [{"n": 2}, {"n": 3}]
    written = Journal(tmp_path / "written" / "rows.jsonl")
    written.append(old)
    left = deaths(lambda: Journal(written.path).append(new), tmp_path / "written", tmp_path / "left")
    found = [Journal(root / "rows.jsonl").rows() for root in left]
    assert len(left) > 2 and all(rows in (old, old + new) for rows in found) and found[-1] == old + new


def test_a_short_write_leaves_no_part_of_a_batch(tmp_path):
    path = tmp_path / "rows.jsonl"
    Journal(path).append([{"n": 1}])

    def work():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(StorageError, match=r"rows\.jsonl: file too large; raise the limit"):
            Journal(path).append({"n": number} for number in range(1000))

    content = path.read_bytes()
    assert in_child(work) == 0
    assert path.read_bytes() == content


def test_a_checkpoint_after_each_operation(tmp_path):
    torch = pytest.importorskip("torch")
    from pipeline.engines.training.fit import Checkpoint

    def state(value: float):
        parameter = torch.nn.Parameter(torch.full((5,), value))
        optimizer = torch.optim.AdamW([parameter])
        parameter.grad = torch.ones(5)
        optimizer.step()
        return {"weight": parameter}, optimizer

    written = Checkpoint(tmp_path / "written" / "state.safetensors")
    written.save(1, *state(1.0), [{"step": 1}])
    second, seen = state(2.0), []
    left = deaths(lambda: written.save(2, *second, [{"step": 1}, {"step": 2}]), tmp_path / "written", tmp_path / "left")
    for root in left:
        checkpoint = Checkpoint(root / "state.safetensors")
        parameters, optimizer = state(9.0)
        step, log = checkpoint.restore(parameters, optimizer)
        expected = state(float(step))[0]["weight"]
        assert step in (1, 2) and len(log) == step and torch.equal(parameters["weight"], expected)
        seen.append(step)
        checkpoint.save(3, *second, [])
        assert os.listdir(root) == ["state.safetensors"]
    assert len(left) > 10 and seen[0] == 1 and seen[-1] == 2


def test_living_writers_are_left_alone(tmp_path):
    target = tmp_path / "target"
    code = (
        "import sys, pathlib; from pipeline.artifacts.atomic import atomic_directory\n"
        "with atomic_directory(pathlib.Path(sys.argv[1])) as d:\n"
        "    (d / 'x').write_text('slow'); print('ready', flush=True); sys.stdin.readline()"
    )
    slow = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert slow.stdout.readline() == "ready\n"
    for _ in range(3):
        write_folder(target, "quick")
        recover(target)
    assert snapshot(target) == folder("quick")
    slow.communicate("go\n")
    assert slow.returncode == 0 and snapshot(target) == {"x": b"slow"}
    assert os.listdir(tmp_path) == ["target"]


def test_many_writers_of_one_file_and_one_directory(tmp_path):
    def write(number: int) -> Callable[[], None]:
        def work():
            for _ in range(20):
                write_file(tmp_path / "file", f"{number}")
                write_folder(tmp_path / f"folder{number % 2}", f"{number}")

        return work

    children = [fork(write(number)) for number in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert snapshot(tmp_path / "file") in (b"0", b"1")
    assert [snapshot(tmp_path / f"folder{n}") for n in (0, 1)] == [folder("0"), folder("1")]
    assert sorted(os.listdir(tmp_path)) == ["file", "folder0", "folder1"]


def test_leftovers_of_a_killed_writer_are_removed_by_the_next(tmp_path):
    target = tmp_path / "a.b"
    code = (
        "import sys, time, pathlib; from pipeline.artifacts.atomic import atomic_path\n"
        "with atomic_path(pathlib.Path(sys.argv[1])) as t:\n"
        "    t.write_text('half'); print('ready', flush=True); time.sleep(600)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, str(target)], cwd=ROOT, stdout=subprocess.PIPE)
    killed.stdout.readline()
    killed.kill()
    killed.wait()
    write_file(tmp_path / "a", "other")  # whose name is the beginning of the leftover's
    assert len(os.listdir(tmp_path)) == 2
    write_file(target, "whole")
    assert sorted(os.listdir(tmp_path)) == ["a", "a.b"] and target.read_text() == "whole"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", "x")
        write_folder(tmp_path / "folder", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


def test_a_reader_finishes_what_a_killed_run_began(tmp_path):
    from pipeline.artifacts.storage import read_json, write_json

    target = tmp_path / "evaluation"
    for value in (1, 2):
        with contextlib.suppress(ZeroDivisionError), atomic_directory(target) as directory:
            write_json(directory / "metrics.json", value)
    started = time.monotonic()

    def work():
        def die(count, call):
            call()
            if not target.exists():
                os._exit(KILLED)

        with atomic_directory(target) as directory:
            write_json(directory / "metrics.json", 3)
            patch = counted(("replace",), die)
            patch.__enter__()

    assert in_child(work) == KILLED and not target.exists()
    assert read_json(target / "metrics.json") == 3
    assert os.listdir(tmp_path) == ["evaluation"] and time.monotonic() - started < 60
