"""One run at a time: a lock that the kernel gives back when its holder ends, however it ends."""

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pipeline.artifacts.atomic import NO_LOCKS
from pipeline.errors import BusyError, ConfigError


def lock_path(directory: Path) -> Path:
    """The lock file of a directory: beside it, because the directory itself may be removed and made anew."""
    return directory.with_name(directory.name + ".lock")


def _holder(path: Path) -> str:
    """Who holds a lock, for a message; the file may be empty for a moment, or from a machine out of reach."""
    try:
        found = json.loads(path.read_text())
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


@contextlib.contextmanager
def exclusive(directory: Path, what: str) -> Iterator[None]:
    """Hold the lock of ``directory``; nothing in the directory is touched.

    The lock is ``flock`` on ``DIRECTORY.lock``. The kernel releases it when the process is killed, so a lock file
    that is left over blocks nobody. It also holds between machines whose shared file system passes ``flock`` on
    (NFS and Lustre do, unless mounted otherwise). A child made by ``fork`` keeps the lock until it ends, too.

    Args:
        directory: What only one process may use; it need not exist, its parent is made.
        what: The work, for the message of whom it refuses, e.g. "train-soft qwen3_14b".

    Raises:
        BusyError: Another holder has it: at once, with its process id, host and start.
        ConfigError: The file system has no locks.
    """
    path = lock_path(directory)
    path.parent.mkdir(parents=True, exist_ok=True)

    def sign(descriptor: int) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"what": what, "pid": os.getpid(), "host": socket.gethostname(), "since": now}
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(entry) + "\n").encode(), 0)

    lock = FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True, on_acquired=sign)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(
            f"{what} is already running ({_holder(path)}) and works in {directory}; wait for it or end it first"
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise ConfigError(
            f"{path}: the file system has no locks (flock), which keep two runs apart; mount it with them (Lustre: "
            "-o flock), or set `artifacts` to a directory on another one"
        ) from None
    try:
        yield
    finally:
        # Removed while it is held: whoever opened it before finds that it has no name any more, and is refused.
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()


@contextlib.contextmanager
def scratch(directory: Path, what: str) -> Iterator[None]:
    """Hold the lock of a directory for an unfinished run's state, and remove the directory on success.

    Raises what ``exclusive`` raises.
    """
    with exclusive(directory, what):
        yield
        shutil.rmtree(directory, ignore_errors=True)
