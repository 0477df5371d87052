"""Files and directories that appear whole: written in a hidden place beside the target, then moved there. The next
writer removes what a killed one left over; DVC makes a directory again that a kill between two renames costs."""

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


def _replace(new: Path, target: Path) -> None:
    """Move ``new`` to ``target``; a directory there steps aside first."""
    old = target.with_name(f".{target.name}.old")
    _remove(old)
    if target.is_dir():
        os.replace(target, old)
    os.replace(new, target)
    _remove(old)


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A free path beside ``target``, removed at the end. Raises StorageError naming the target."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(partial)
        try:
            yield partial
        finally:
            with contextlib.suppress(OSError):
                _remove(partial)
    except Exception as error:
        if (refused := storage_error(error, str(target))) is None:
            raise
        raise StorageError(refused.number, refused.path.replace(str(partial), str(target))) from error


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path and move what is written there to ``path`` on success. Raises StorageError naming it."""
    with _partial(path) as new:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        _replace(new, path)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory and put it in the place of ``path`` on success. Raises StorageError naming it."""
    with _partial(path) as new:
        new.mkdir()
        yield new
        _replace(new, path)


@contextlib.contextmanager
def atomic_entries(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory whose entries then replace those of the same name in ``directory``, one by one."""
    with _partial(directory) as new:
        new.mkdir()
        yield new
        directory.mkdir(exist_ok=True)
        for entry in sorted(new.iterdir()):
            _replace(entry, directory / entry.name)
