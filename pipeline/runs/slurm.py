"""The DAG as Slurm jobs, one a stage: ``python -m pipeline.runs.slurm submit``, ``status``, and in a job ``run NAME``.

Slurm decides when a job runs, and starts it again where it was preempted; its stage goes on where it was.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from pipeline.command import RESUMES, Terminated, run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import load_params
from pipeline.config.training import DistributedConfig
from pipeline.dag.graph import StageGraph
from pipeline.errors import ConfigError, PipelineError
from pipeline.runs.dvc_process import GRACE_SECONDS, last_error, remove_half_written, start_dvc, wait_for
from pipeline.runs.parallel import LOGS, log_of, plan_of

SUBMITTED, DONE = "--- submitted", "is done\n"
"""What the log of a stage has where a job of it begins, and at its end."""


def slurm(*command: str) -> str:
    """What a command of Slurm prints. Raises ConfigError where there is none, PipelineError with its own error."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        raise ConfigError(f"there is no Slurm here: {command[0]} is not on PATH") from None
    except subprocess.CalledProcessError as error:
        raise PipelineError(f"{command[0]}: {error.stderr.strip()}") from None


def queued() -> dict[str, tuple[str, str]]:
    """Job and state ("PENDING", "RUNNING", ...) of each stage of this directory that Slurm has."""
    lines = slurm("squeue", "--me", "--noheader", "--format=%i|%T|%j|%Z").splitlines()
    jobs = (line.split("|", maxsplit=3) for line in lines)
    return {name: (job, state) for job, state, name, directory in jobs if Path(directory).resolve() == Path.cwd()}


def submit(
    graph: StageGraph, stale: set[str], there: dict, distributed: DistributedConfig, options: str, gpu_option: str
) -> None:
    """A job for each stage of ``stale`` that has none ``there`` (``queued``), behind the jobs of what it reads."""
    # Slurm does not make the directory of a job's output.
    LOGS.mkdir(parents=True, exist_ok=True)
    jobs = {name: job for name, (job, _) in there.items()}
    for name in (name for name in graph.closure(stale) if name in stale - set(there)):
        count = distributed.processes(graph[name].stage.device)
        needed = [jobs[each] for each in graph.upstream(name) if each in jobs]
        sent = ["sbatch", "--parsable", "--requeue", f"--signal=B:USR1@{GRACE_SECONDS:.0f}", f"--job-name={name}"]
        sent += [f"--output={log_of(name)}", "--open-mode=append", *shlex.split(options)]
        sent += [gpu_option.format(count)] if count and gpu_option else []
        sent += [f"--dependency=afterok:{':'.join(needed)}", "--kill-on-invalid-dep=yes"] if needed else []
        command = shlex.join([sys.executable, "-m", "pipeline.runs.slurm", "run", name])
        with log_of(name).open("a") as log:
            print(SUBMITTED, name, file=log)
        jobs[name] = slurm(*sent, f"--wrap=exec {command}").partition(";")[0]
    print(f"{len(jobs) - len(there)} jobs submitted, {len(there)} were there. `make status` shows them; to cancel all:")
    print(f"scancel {' '.join(jobs.values())}")


def run(name: str) -> None:
    """Run a stage with DVC in a job. One that its time limit ends (SIGUSR1) asks to be started again."""
    try:
        status = wait_for(start_dvc(Path(), ["repro", "--single-item", name], log_of(name)))
    except Terminated as stopped:
        if stopped.args == (signal.SIGUSR1,) and (job := os.environ.get("SLURM_JOB_ID")):
            slurm("scontrol", "requeue", job)
        raise
    if status:
        raise PipelineError(f"{name} failed: {log_of(name)}")
    print(name, DONE, end="", flush=True)


def state_of(name: str, job_state: str) -> str:
    """Of a stage, by Slurm and by its log: running, waiting (for others or a place), interrupted (waits to go on),
    failed, done, cancelled, or not submitted."""
    log = log_of(name).read_text(errors="replace") if log_of(name).exists() else ""
    _, submitted, text = log.rpartition(SUBMITTED)
    if job_state == "PENDING":
        return "interrupted" if RESUMES in text else "waiting"
    ended = "done" if text.endswith(DONE) else "failed" if last_error(text) else "cancelled"
    return job_state.lower() or (ended if submitted else "not submitted")


def main(command: str, names: list[str], options: str, gpu_option: str) -> None:
    """Raises PipelineError where Slurm refuses a job or a stage fails."""
    if command == "run":
        return run(*names)
    jobs = queued()
    if command == "submit":
        if not jobs:
            remove_half_written(Path())
        params, graph, stale = plan_of(names, jobs)
        # A job that was killed behind its stage's last write is done to DVC, whatever its log says.
        for name in () if names else set(graph) - stale:
            if state_of(name, "") in ("failed", "cancelled"):
                with log_of(name).open("a") as log:
                    print(SUBMITTED, name, f"\n{name}", DONE, end="", file=log)
        return submit(graph, stale, jobs, params.distributed, options, gpu_option)
    # DVC cannot be asked while a stage writes.
    graph = StageGraph(load_params(Path("params.yaml")))
    wanted = graph.closure(graph.select(names) if names else list(graph))
    found = {name: state_of(name, jobs.get(name, ("", ""))[1]) for name in wanted}
    counts = Counter(found.values())
    for state in sorted(counts.keys() - {"done"}):
        print(f"{state}: {', '.join(name for name in found if found[name] == state)}")
    print(", ".join(f"{number} {state}" for state, number in counts.most_common()))


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.runs.slurm"))
