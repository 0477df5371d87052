"""Replace files and directories as a whole: a reader finds the old content or the new, whenever the writer dies.

A writer works in a hidden directory of its own beside the target, ``.NAME.RANDOM.partial``::

    lock          held (flock) for as long as the writer lives
    new           what is being written, a file or a directory
    old, others   where a directory that is replaced waits while ``new`` takes its place

A file is replaced by one ``rename``. A directory cannot be: the old one has to step aside first, and a writer that
dies between the two renames leaves neither. So ``old`` is made only when ``new`` is complete and on the disk, and
whoever next writes the target, or misses it when reading, finishes what the dead writer had begun (``recover``).
Directories of dead writers are cleaned up on the same occasion; those of living ones are locked and left alone.

``renameat2(RENAME_EXCHANGE)`` would swap directories in one step, but only on Linux and not on NFS; a symbolic link
in the target's place would make it one step everywhere, but DVC stores and compares real directories.

After a power loss the same holds: content is flushed before it is moved, and so is the move before the writer goes on.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import StorageError, storage_error

SUFFIX = ".partial"
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What ``flock`` answers on a file system without it; there nothing is cleaned up, because nobody can be told dead."""


def sync(path: Path) -> None:
    """Flush a file or a directory's list of entries to the disk. Raises OSError naming the path."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some network file systems have no flush of directories
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def _sync_tree(directory: Path) -> None:
    for folder, _, names in os.walk(directory):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))


def _lock(descriptor: int) -> bool | None:
    """Whether the lock was free and is now held; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        if error.errno != errno.EWOULDBLOCK:
            raise
        return False
    return True


def _open_workshop(target: Path) -> tuple[Path, int]:
    """A new hidden directory beside ``target`` and the descriptor of its lock."""
    while True:
        workshop = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=SUFFIX))
        try:
            descriptor = os.open(workshop / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # another writer took the empty directory for a dead one's
        except BaseException:
            workshop.rmdir()
            raise
        if _lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return workshop, descriptor
        os.close(descriptor)  # another writer was faster, took it for a dead one's and removes it


def _remove(workshop: Path) -> None:
    """Remove a workshop, its lock last: while anything is left, it can be seen whether its writer lives."""
    for entry in list(workshop.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()
    (workshop / "lock").unlink(missing_ok=True)
    workshop.rmdir()


def _finish(workshop: Path, target: Path) -> None:
    """The second half of replacing a directory, for the writer or whoever follows a dead one; may be repeated."""
    new, old, others = workshop / "new", workshop / "old", workshop / "others"
    if (old.exists() or others.exists()) and new.exists() and not os.path.lexists(target):
        os.replace(new, target)
        sync(target.parent)
    if others.exists():
        target.mkdir(exist_ok=True)
        for entry in sorted(others.iterdir()):
            if not os.path.lexists(target / entry.name):
                os.replace(entry, target / entry.name)
        sync(target)
        os.replace(others, old)


def _is_finished(workshop: Path, target: Path) -> bool:
    """Whether nothing in the workshop is needed any more."""
    return not (workshop / "others").exists() and (os.path.lexists(target) or not (workshop / "old").exists())


def _is_workshop(name: str, target: Path) -> bool:
    prefix = f".{target.name}."
    return name.startswith(prefix) and name.endswith(SUFFIX) and "." not in name[len(prefix) : -len(SUFFIX)]


def recover(target: Path) -> None:
    """Finish the replacements of ``target`` whose writers died in the middle, and remove what they left over.

    Raises:
        OSError: The directory cannot be read or changed.
    """
    for name in sorted(os.listdir(target.parent)):
        if not _is_workshop(name, target):
            continue
        workshop = target.parent / name
        try:
            descriptor = os.open(workshop / "lock", os.O_RDWR)
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                workshop.rmdir()  # fails, rightly, unless the writer died before it made its lock
            continue
        try:
            if _lock(descriptor):
                _finish(workshop, target)
                _remove(workshop)
        except FileNotFoundError:
            pass  # another process was faster
        finally:
            os.close(descriptor)


def _public_name(path: str, target: Path) -> str:
    """What the user knows a file by, rather than the hidden place where it is made."""
    made, parent = Path(os.path.abspath(path)), Path(os.path.abspath(target.parent))
    if made == parent:
        return str(target)
    if not (made.is_relative_to(parent) and _is_workshop(made.relative_to(parent).parts[0], target)):
        return path
    return str(target.joinpath(*made.relative_to(parent).parts[2:]))


@contextlib.contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """A workshop that is gone afterwards, come what may but a kill."""
    workshop, descriptor = None, -1
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        workshop, descriptor = _open_workshop(target)
        yield workshop
    except Exception as error:
        refused = storage_error(error, str(target))
        if refused is None:
            raise
        raise StorageError(refused.number, _public_name(refused.path, target)) from error
    finally:
        if workshop is not None:
            # Not when a replacement broke off in the middle: what it has put aside, the next run puts back.
            with contextlib.suppress(OSError):
                if _is_finished(workshop, target):
                    _remove(workshop)
            os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path, an empty file, and move it to ``path`` on success.

    A failure or a kill leaves whatever ``path`` held before. Raises StorageError naming ``path``.
    """
    with _workshop(path) as workshop:
        new = workshop / "new"
        new.touch()
        mode = stat.S_IMODE(new.stat().st_mode)
        yield new
        sync(new)
        new.chmod(mode)  # a library that made the file anew may have made it private
        os.replace(new, path)
        sync(path.parent)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory and put it in the place of ``path`` on success.

    A failure leaves whatever ``path`` held before, a kill that or, until the next writer or ``recover``, nothing.
    Raises StorageError naming ``path``.
    """
    with _workshop(path) as workshop:
        yield from _directory(workshop, path, "old")


@contextlib.contextmanager
def atomic_entries(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory whose entries replace those of the same name in ``directory``, all at once.

    Other entries of ``directory`` stay: they follow one by one into the directory that takes its place, and a kill
    may leave some of them to the next writer or ``recover``. Raises StorageError naming ``directory``.
    """
    with _workshop(directory) as workshop:
        yield from _directory(workshop, directory, "others")


def _directory(workshop: Path, target: Path, aside: str) -> Iterator[Path]:
    new = workshop / "new"
    new.mkdir()
    yield new
    _sync_tree(new)
    if os.path.lexists(target):
        os.replace(target, workshop / aside)
        _finish(workshop, target)
    else:
        os.replace(new, target)
        sync(target.parent)
