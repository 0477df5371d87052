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

import psutil
import yaml

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


def remove_half_written(directory: Path) -> None:
    """Remove what a DVC that was killed left half written, as every later one would stop there: its list of files in
    use, and ``dvc.lock``. For a directory where no DVC is at work."""
    # Here, as what composes a sweep does not wait for DVC.
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    def check_lock(text: str) -> None:
        COMPILED_LOCKFILE_SCHEMA(yaml.load(text, yaml.CSafeLoader))

    for name, check in {".dvc/tmp/rwlock": json.loads, "dvc.lock": check_lock}.items():
        path = directory / name
        try:
            check(path.read_text())
        except FileNotFoundError:
            continue
        except (ValueError, yaml.YAMLError, Invalid):
            path.unlink()
            print(f"{path} was half written by a DVC that was killed, and is removed", file=sys.stderr)


def _suspend(process: subprocess.Popen) -> None:
    """Suspend DVC where it is not writing ``dvc.lock``, which it empties first: ended there, it loses what was done."""
    with contextlib.suppress(psutil.Error):
        dvc = psutil.Process(process.pid)
        for _ in range(1_000):
            dvc.suspend()
            time.sleep(0.01)  # until it stands still
            if not any(file.path.endswith("dvc.lock") for file in dvc.open_files()):
                return
            dvc.resume()
            time.sleep(0.01)


def end(*processes: subprocess.Popen) -> None:
    """End processes of ``start_dvc`` and all that they started; stages resume later."""
    for process in processes:
        _suspend(process)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            # Its session outlives DVC itself by the stage that it was running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                os.killpg(process.pid, signal.SIGCONT)
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
