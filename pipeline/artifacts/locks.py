"""One run at a time: a lock that the kernel releases when its holder ends, however it ends."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pipeline.errors import BusyError, ConfigError


@contextlib.contextmanager
def exclusive(directory: Path, what: str) -> Iterator[None]:
    """Hold the lock of ``directory``, which need not exist, for the work ``what`` ("train-soft qwen3_14b"): ``flock``
    on ``DIRECTORY.lock``, so a file that is left over blocks nobody. Raises BusyError with the holder's process id,
    host and start where another has it, and ConfigError where the file system has no locks."""
    path = directory.with_name(directory.name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)

    def sign(descriptor: int) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {now}".encode(), 0)

    lock = FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True, on_acquired=sign)
    try:
        lock.acquire()
    except Timeout:
        holder = ""
        with contextlib.suppress(OSError):
            holder = path.read_text()
        raise BusyError(
            f"{what} is already running ({holder or 'another process'}) and works in {directory}; "
            "wait for it or end it first"
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
