"""Files and directories that appear whole: made in a hidden place beside the target, then moved there.

Only one process at a time makes a target. What a killed one left over, its next writer removes. A file is replaced in
one step; a directory is missing between two renames, and a kill at that moment costs it: DVC then makes it again.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from pipeline.artifacts.locks import held
from pipeline.errors import StorageError, storage_error


@contextlib.contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """A directory beside ``target``, empty and gone afterwards, in which "new" is to be made."""
    workshop, lock = (target.with_name(f".{target.name}.{suffix}") for suffix in ("partial", "lock"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with held(lock):
            try:
                if workshop.exists():
                    shutil.rmtree(workshop)
                (workshop / "old").mkdir(parents=True)
                yield workshop
            finally:
                shutil.rmtree(workshop, ignore_errors=True)
    except Exception as error:
        refused = storage_error(error, str(target))
        if refused is None:
            raise
        raise StorageError(refused.number, _public_name(refused.path, target)) from error


def _public_name(path: str | None, target: Path) -> str:
    """What the user knows a file by, rather than the hidden place where it is made."""
    if path is None:
        return str(target)
    hidden, *inside = Path(os.path.relpath(path, target.parent)).parts
    return str(target.joinpath(*inside[1:])) if hidden.startswith(f".{target.name}.") else path


def _move(new: Path, target: Path, aside: Path) -> None:
    """Put ``new`` in the place of ``target``; a directory there steps aside first, and back if that fails."""
    if not (os.path.lexists(target) and (new.is_dir() or target.is_dir())):
        os.replace(new, target)
        return
    os.replace(target, aside)
    try:
        os.replace(new, target)
    except OSError:
        os.replace(aside, target)
        raise


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path, an empty file, and move it to ``path`` on success; a kill leaves what was there.

    Raises StorageError naming ``path``.
    """
    with _workshop(path) as workshop:
        new = workshop / "new"
        new.touch()
        mode = stat.S_IMODE(new.stat().st_mode)
        yield new
        new.chmod(mode)  # a library that made the file anew may have made it private
        with new.open("rb") as file:
            os.fsync(file.fileno())
        _move(new, path, workshop / "old" / path.name)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory and put it in the place of ``path`` on success. Raises StorageError naming it."""
    with _workshop(path) as workshop:
        (workshop / "new").mkdir()
        yield workshop / "new"
        _move(workshop / "new", path, workshop / "old" / path.name)


@contextlib.contextmanager
def atomic_entries(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory whose entries then replace those of the same name in ``directory``, one by one.

    Raises StorageError naming ``directory``.
    """
    with _workshop(directory) as workshop:
        (workshop / "new").mkdir()
        yield workshop / "new"
        directory.mkdir(exist_ok=True)
        for entry in sorted((workshop / "new").iterdir()):
            _move(entry, directory / entry.name, workshop / "old" / entry.name)
