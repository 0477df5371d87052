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
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from tests.forked import fork, run_module

VARIABLE = {
    *("started", "wall_time_seconds", "tokens_read", "peak_memory_bytes", "peak_gpu_memory_bytes", "continued"),
    *("seconds", "outputs_sha256"),
}
"""What a run says about itself in provenance and training logs: its cost, and hashes of outputs with that in them; the
outputs themselves are compared."""
LOOK_SECONDS = 0.002


@dataclass
class Job:
    """A stage to run: its module and arguments, what it writes, and where its unfinished work lies."""

    name: str
    module: str
    arguments: list[str]
    outputs: list[Path]
    scratch: list[Path] = field(default_factory=list)


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


def run(job: Job, log: Path, kill_after: float | None = None) -> tuple[int, float]:
    """Exit code of the stage (-9 if it was killed, after so many processor seconds) and its processor seconds."""

    def work() -> None:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        run_module(job.module, job.arguments)

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


def remove(*paths: Path) -> None:
    """Remove files and directories, where they are."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def examine(job: Job, log: Path, moments: list[float]) -> tuple[int, list[str]]:
    """Run a stage whole, then kill it at every moment (shares of its work), each time on what the kill before has left,
    and let it finish. How often it was killed, and what is wrong with what it leaves."""
    status, seconds = run(job, log)
    if status != 0:
        return 0, [f"the uninterrupted run: {log.read_text()[-2000:]}"]
    whole = {path: digest(path) for path in job.outputs}
    killed, errors = 0, []
    if moments:
        remove(*job.outputs, *job.scratch)
    for moment in moments:
        left = moment * seconds
        status, used = run(job, log, left)
        while status == 0 and left > 0.01:
            # The first run of its kind loads more than this one; and it takes time to take a process down.
            remove(*job.outputs, *job.scratch)
            left = min(left, used) / 2
            status, used = run(job, log, left)
        killed += status == -signal.SIGKILL
        if status not in (0, -signal.SIGKILL):
            errors.append(f"at {moment:.3f}: status {status}, {log.read_text()[-2000:]}")
        errors += [f"at {moment:.3f}: {path} is damaged" for path in whole if digest(path) not in (None, whole[path])]
    if moments and (status := run(job, log)[0]) != 0:
        errors.append(f"the last run: status {status}, {log.read_text()[-2000:]}")
    errors += [f"at the end: {path} is another" for path in whole if digest(path) != whole[path]]
    places = {output.parent for output in job.outputs}
    hidden = [item for place in places for item in place.iterdir() if item.suffix in (".partial", ".old", ".lock")]
    hidden += [path for path in job.scratch if path.exists() or path.with_name(f"{path.name}.lock").exists()]
    return killed, errors + [f"left over: {path}" for path in hidden]
