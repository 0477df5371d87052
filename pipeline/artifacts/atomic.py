"""Files and directories that appear whole: made in a hidden place beside the target, then moved there.

Only one process at a time makes a target. What a killed one left over, its next writer removes. A file is replaced in
one step; a directory is missing between two renames, and a kill at that moment costs it: DVC then makes it again.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import StorageError, storage_error


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _hidden(target: Path) -> Iterator[Path]:
    """A free place beside ``target``, empty again afterwards. Raises StorageError naming the target."""
    place = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(place)
        try:
            yield place
        finally:
            with contextlib.suppress(OSError):
                _remove(place)
    except Exception as error:
        refused = storage_error(error, str(target))
        if refused is None:
            raise
        # What the user knows a file by, rather than the hidden place where it is made.
        named = str(refused.path).replace(str(place), str(target))
        raise StorageError(refused.number, named) from error


def _move(new: Path, target: Path) -> None:
    """Put ``new`` in the place of ``target``; a directory there steps aside first."""
    old = target.with_name(f".{target.name}.old")
    _remove(old)
    if target.is_dir():
        os.replace(target, old)
    os.replace(new, target)
    _remove(old)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path and move what is written there to ``path`` on success. Raises StorageError naming it."""
    with _hidden(path) as new:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        _move(new, path)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory and put it in the place of ``path`` on success. Raises StorageError naming it."""
    with _hidden(path) as new:
        new.mkdir()
        yield new
        _move(new, path)


@contextlib.contextmanager
def atomic_entries(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory whose entries then replace those of the same name in ``directory``, one by one."""
    with _hidden(directory) as new:
        new.mkdir()
        yield new
        directory.mkdir(exist_ok=True)
        for entry in sorted(new.iterdir()):
            _move(entry, directory / entry.name)
