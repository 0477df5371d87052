"""Runs stages as forked children, kills them at chosen moments, and looks at what they leave.

The libraries are loaded once, before the forks: loading them takes longer than the work of a stage on a tiny model.
"""

import contextlib
import hashlib
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq

from tests.forked import fork, run_module

VARIABLE = {
    "started",
    "wall_time_seconds",
    "tokens_read",
    "peak_memory_bytes",
    "peak_gpu_memory_bytes",
    "continued",
    "seconds",
    "cache_hits",
    "classifier_calls",
    "reward_calls",
    "outputs_sha256",
}
"""What a run says about itself in provenance and training logs: times, how much it found already done, and hashes of
outputs with either in them; the outputs themselves are compared."""

LOOK_SECONDS = 0.002


def processor_seconds(process: int) -> float:
    """What a process and those that it has started have used of the processors so far; of one that has ended, too.

    Unlike the time of day it tells how much of the work is done, whatever else the machine does meanwhile.
    """
    ended = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[13:15]
    # The clock of a process by clock_getcpuclockid(3), which counts nanoseconds; of children that have ended, ticks.
    seconds = time.clock_gettime(~process << 3 | 2) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
    for thread in Path(f"/proc/{process}/task").iterdir():
        # Threads and children end while they are looked at.
        with contextlib.suppress(OSError):
            seconds += sum(map(processor_seconds, map(int, (thread / "children").read_text().split())))
    return seconds


def run(job: dict, log: Path, kill_after: float | None) -> tuple[int, float]:
    """Exit code of the stage (-9 if it was killed, after so many processor seconds) and its processor seconds."""

    def work() -> None:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        run_module(job["module"], job["arguments"])

    child = fork(work)
    handle = os.pidfd_open(child)
    if kill_after is not None:
        left = kill_after
        # On all processors at once it does not come to the moment sooner.
        while not select.select([handle], [], [], max(left / os.cpu_count(), LOOK_SECONDS))[0]:
            left = kill_after - processor_seconds(child)
            if left <= 0:
                os.kill(child, signal.SIGKILL)
                break
    select.select([handle], [], [])
    seconds = processor_seconds(child)
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seconds


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in VARIABLE}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def digest(path: Path) -> object:
    """A hash of a file, of a directory by name, or None; without what differs from run to run."""
    if path.is_dir():
        return {str(item.relative_to(path)): digest(item) for item in sorted(path.rglob("*")) if item.is_file()}
    if not path.exists():
        return None
    content = path.read_bytes()
    if path.name.endswith("provenance.json"):
        content = json.dumps(_plain(json.loads(content))).encode()
    elif path.suffix == ".parquet" and "details" in (table := pq.read_table(path)).column_names:
        # Log-likelihoods of the tiny tasks: what a killed run has left is batched anew, which rounds otherwise.
        content = table.drop_columns("details").to_pandas().to_csv().encode()
    elif path.name == "train_log.jsonl":
        content = json.dumps([_plain(json.loads(line)) for line in content.splitlines()]).encode()
    return hashlib.sha256(content).hexdigest()


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def progress(scratch: list[Path]) -> int:
    """Finished pieces in scratch directories: complete lines of journals, finished files, steps of a checkpoint."""
    from safetensors import safe_open

    pieces = 0
    for path in (item for directory in scratch if directory.exists() for item in directory.rglob("*")):
        if path.suffix == ".jsonl":
            pieces += path.read_bytes().count(b"\n")
        elif path.suffix == ".json" and ".partial" not in str(path):
            pieces += 1
        elif path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                pieces += int(file.metadata()["step"])
    return pieces


def hidden(outputs: list[Path]) -> list[str]:
    """What is left over beside outputs: temporary directories, locks, unfinished work."""
    places = {output.parent for output in outputs}
    return sorted(
        str(item) for place in places for item in place.iterdir() if item.suffix in (".partial", ".lock", ".unfinished")
    )


def examine(job: dict, log: Path) -> dict:
    """Run a stage whole, then kill it at every one of ``job["moments"]`` (shares of its work), then let it finish."""
    outputs, scratch = [Path(path) for path in job["outputs"]], [Path(path) for path in job["scratch"]]
    status, seconds = run(job, log, None)
    report = {"name": job["name"], "seconds": seconds, "killed": 0, "finished": 0, "errors": []}
    if status != 0:
        return report | {"errors": [f"the uninterrupted run: {log.read_text()[-2000:]}"]}
    whole = {str(path): digest(path) for path in outputs}

    def check(when: str, complete: bool) -> None:
        for path in outputs:
            found = digest(path)
            if found != whole[str(path)] and (complete or found is not None):
                report["errors"].append(f"{when}: {path} is {found}, and was {whole[str(path)]}")

    saved = 0
    for number, moment in enumerate(job["moments"]):
        if number % max(len(job["moments"]) // 2, 1) == 0:
            # Twice over: on nothing, as DVC leaves it, and on what the last run had finished.
            for path in (*outputs, *scratch):
                remove(path)
            saved = 0
        status, used = run(job, log, moment * seconds)
        for attempt in range(3):
            if status != 0 or len(job["moments"]) > 1 or moment > 1:
                break
            # The run before, the first of its kind, loaded more, and took longer than this one; and of a short stage
            # much of the time is that in which its process is taken down.
            for path in (*outputs, *scratch):
                remove(path)
            status, used = run(job, log, moment * used / 2**attempt)
        when = f"kill {number} at {moment:.3f} of {seconds:.3f} processor seconds"
        if status == -signal.SIGKILL:
            report["killed"] += 1
            check(when, complete=False)
            done = progress(scratch)
            # Where scratch is gone, the output is there: the kill came after the work.
            if done < saved and any(digest(path) is None for path in outputs):
                report["errors"].append(f"{when}: {done} finished pieces, and {saved} before")
            saved = done
        elif status == 0:
            report["finished"] += 1
            check(when, complete=True)
        else:
            report["errors"].append(f"{when}: status {status}, {log.read_text()[-2000:]}")
    status, _ = run(job, log, None)
    if status != 0:
        report["errors"].append(f"the last run: status {status}, {log.read_text()[-2000:]}")
    check("at the end", complete=True)
    if left := hidden(outputs) + [str(path) for path in scratch if path.exists() or Path(f"{path}.lock").exists()]:
        report["errors"].append(f"left over: {left}")
    return report
