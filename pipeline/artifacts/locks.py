"""One run at a time: a lock that the kernel releases when its holder ends, however it ends."""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pipeline.errors import BusyError, ConfigError


def _holder(path: Path) -> str:
    """Who holds a lock, for a message; the file may be empty for a moment, or from a machine out of reach."""
    try:
        entry = json.loads(path.read_text())
        return f"process {entry['pid']} on {entry['host']}, since {entry['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


@contextlib.contextmanager
def exclusive(directory: Path, what: str) -> Iterator[None]:
    """Hold the lock of ``directory``, which is not touched and need not exist.

    It is ``flock`` on ``DIRECTORY.lock``, beside the directory, which may be removed and made anew: a file that is left
    over blocks nobody, and it holds between machines whose shared file system passes ``flock`` on. A child made by
    ``fork`` keeps the lock until it ends, too.

    Args:
        directory: What only one process may use.
        what: The work, for the message of whom it refuses, e.g. "train-soft qwen3_14b".

    Raises:
        BusyError: Another holder has it: at once, with its process id, host and start.
        ConfigError: The file system has no locks.
    """
    path = directory.with_name(directory.name + ".lock")
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
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        raise ConfigError(
            f"{path}: the file system has no locks (flock), which keep two runs apart; mount it with them (Lustre: "
            "-o flock), or set `artifacts` to a directory on another one"
        ) from None
    try:
        yield
    finally:
        # Removed while it is held: whoever opened it before finds that it has no name any more, and opens a new one.
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()
