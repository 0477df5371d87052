"""Running DVC as a child process that ends with its parent, its output in a log."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.command import END_SIGNALS, signals_handled, terminate

FAILED_STAGES = re.compile(r"failed to reproduce(?: stages:)? ((?:'[^']+'(?:, | and )?)+)")
GRACE_SECONDS = float(os.environ.get("GRACE_SECONDS", "30"))
"""How long a child may take to end before it is killed: a training does its step and writes a checkpoint."""


def start_dvc(
    directory: Path, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen:
    """Start ``dvc`` in a session of its own, its output appended to ``log``; it waits for other DVC processes."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments],
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def remove_broken_rwlock(directory: Path) -> None:
    """Remove DVC's list of files in use where a DVC that was killed left half of it: every later run would stop there.
    For a directory where no DVC is at work."""
    path = directory / ".dvc" / "tmp" / "rwlock"
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        path.unlink()


def end(*processes: subprocess.Popen) -> None:
    """End processes of ``start_dvc`` and all that they started; stages resume later."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            # Its session outlives DVC itself by the stage that it was running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        while number == signal.SIGTERM and time.monotonic() < deadline and any(map(_session_lives, processes)):
            time.sleep(0.05)
    for process in processes:
        process.wait()


def wait_for(process: subprocess.Popen) -> int:
    """The exit status of a process of ``start_dvc``. What it started is ended with it: where this process is
    interrupted, and where a scheduler has ended DVC alone, whose stage has its time then."""
    status = None
    try:
        status = process.wait()
    finally:
        if status != 0:
            end(process)
    return status


def _session_lives(process: subprocess.Popen) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Turn END_SIGNALS into the exception Terminated, where this is the main thread and nobody else handles them."""
    mine = threading.current_thread() is threading.main_thread()
    free = [number for number in END_SIGNALS if mine and signal.getsignal(number) is signal.SIG_DFL]
    with signals_handled(terminate, free):
        yield


def failed_stages(text: str) -> list[str]:
    """Stages that DVC's output says have failed."""
    names = [name for match in FAILED_STAGES.finditer(text) for name in re.findall(r"'([^']+)'", match[1])]
    return list(dict.fromkeys(names))


def last_error(text: str) -> str:
    """The last line of a log that names an error of a stage, or of DVC; empty where none does."""
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for start in ("ERROR: ", "error: ") for line in lines if line.startswith(start)]
    return errors[-1] if errors else ""
