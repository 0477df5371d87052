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
from types import FrameType
from typing import Any

import psutil

from pipeline.command import Terminated

FAILED_STAGES = re.compile(r"failed to reproduce(?: stages:)? ((?:'[^']+'(?:, | and )?)+)")
SECONDS_TO_END = 20.0
"""How long a child may take to end before it is killed."""


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Turn SIGTERM into the exception Terminated, where this is the main thread and nobody else handles it."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise Terminated

    mine = threading.current_thread() is threading.main_thread()
    mine = mine and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def start_dvc(
    directory: Path, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen:
    """Start ``dvc`` in a session of its own, its output appended to ``log``.

    Args:
        directory: Where to run.
        arguments: Of ``dvc``; it waits for the lock of other DVC processes.
        log: File to append to.
        environment: Added to the environment.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        return subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def forget_dead_processes(directory: Path) -> None:
    """Remove DVC's list of who reads and writes what, where a kill has left it half written or nobody on it lives.

    DVC itself stops at a half-written list, and takes a process that has ended but was not waited for to be running.

    Args:
        directory: A workspace in which no DVC is at work that this process does not know of.
    """
    path = directory / ".dvc" / "tmp" / "rwlock"
    try:
        listed = json.loads(path.read_text())
    except FileNotFoundError:
        return
    except ValueError:
        listed = {}
    if not any(map(_runs, _process_ids(listed))):
        path.unlink()


def _process_ids(listed: Any) -> Iterator[int]:
    """Every "pid" at any depth."""
    if isinstance(listed, dict):
        if isinstance(listed.get("pid"), int):
            yield listed["pid"]
        listed = list(listed.values())
    if isinstance(listed, list):
        for item in listed:
            yield from _process_ids(item)


def _runs(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def end(*processes: subprocess.Popen) -> None:
    """End processes of ``start_dvc`` and all that they started; stages resume later."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            # Its session outlives DVC itself by the stage that it was running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        if number == signal.SIGTERM:
            deadline = time.monotonic() + SECONDS_TO_END
            while time.monotonic() < deadline and any(_session_lives(process) for process in processes):
                time.sleep(0.05)
    for process in processes:
        process.wait()


def _session_lives(process: subprocess.Popen) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_or_end(process: subprocess.Popen) -> int:
    """Exit status of the process; it is ended where this one is interrupted or terminated."""
    try:
        with terminated_like_interrupted():
            return process.wait()
    except BaseException:
        end(process)
        raise


def failed_stages(text: str) -> list[str]:
    """Stages that DVC's output says have failed."""
    names = [name for match in FAILED_STAGES.finditer(text) for name in re.findall(r"'([^']+)'", match[1])]
    return list(dict.fromkeys(names))


def last_error(text: str) -> str:
    """The last line of a log that names an error of a stage, or of DVC; empty where none does."""
    lines = [line.strip() for line in text.splitlines()]
    of_stages = [line for line in lines if line.startswith("error: ")]
    of_dvc = [line for line in lines if line.startswith("ERROR: ")]
    return next(iter([*reversed(of_stages), *reversed(of_dvc)]), "")
