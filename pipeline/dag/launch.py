"""Starts a training stage in as many processes as ``distributed.num_processes`` says.

The command of the stage stays the same: its process becomes a launcher (torchrun's own agent) that starts the same
command once per process. The first failure ends them all and is shown once. When the launcher is told to end, its
processes end first; when it is killed outright, they notice. Processes that somebody else started (torchrun, srun),
which is told by WORLD_SIZE in their environment, run the stage as they are.
"""

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline.artifacts.storage import read_json, write_json
from pipeline.command import Terminated
from pipeline.errors import ConfigError, PipelineError, storage_error

DIRECTORY, LAUNCHER = "PIPELINE_LAUNCH_DIRECTORY", "PIPELINE_LAUNCHER"
"""Variables: directory of the launcher, where its processes leave word of how they failed; its process id."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
SECONDS_BETWEEN_LOOKS = 0.5
LINES_OF_LOG = 30


def thread_share(processes: int) -> dict[str, str]:
    """OMP_NUM_THREADS of each of so many processes at once, for their environment; empty where it is set already."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // processes, 1))}


def launch(command: list[str], num_processes: int) -> None:
    """Run a command, which must call ``run_launched``, in several processes that can find each other.

    The standard streams of all but the first are not shown.

    Raises:
        ConfigError: There are fewer GPUs, but not none.
        PipelineError: One that ended a process.
        SystemExit: A process failed otherwise, which is printed; with its status.
        KeyboardInterrupt, Terminated: A signal to end came; the processes have ended.
    """
    import torch
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if 0 < torch.cuda.device_count() < num_processes:
        raise ConfigError(
            f"distributed.num_processes is {num_processes}, but this machine has {torch.cuda.device_count()} GPUs"
        )
    with tempfile.TemporaryDirectory(prefix="training.") as directory:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=num_processes,
            run_id=Path(directory).name,
            max_restarts=0,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            logs_specs=DefaultLogsSpecs(log_dir=directory, redirects=dict.fromkeys(range(1, num_processes), Std.ALL)),
            signals_to_handle=",".join(number.name for number in SIGNALS),
        )
        ours = {DIRECTORY: directory, LAUNCHER: str(os.getpid())}
        try:
            with _as_before({**thread_share(num_processes), **ours}):
                elastic_launch(config, command[0])(*command[1:])
        except SignalException as stopped:
            raise (KeyboardInterrupt if stopped.sigval == signal.SIGINT else Terminated) from None
        except ChildFailedError as failed:
            exit_codes = {rank: failure.exitcode for rank, failure in failed.failures.items()}
            _raise_failure(Path(directory), exit_codes, num_processes)


@contextlib.contextmanager
def _as_before(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and keep the agent from logging, which for a failure is a table without the
    reason; afterwards variables and handlers of signals are what they were.
    """
    environment, handlers = dict(os.environ), {number: signal.getsignal(number) for number in SIGNALS}
    os.environ.update(variables)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _raise_failure(directory: Path, exit_codes: Mapping[int, int], num_processes: int) -> None:
    """Raise what ended the processes, not what followed from it in those that were left."""
    failures = [read_json(path) | {"rank": int(path.stem)} for path in directory.glob("*.json")]
    # Without word of why: killed for its memory, a fault in native code. SIGTERM is how the others are ended.
    speechless = set(exit_codes) - {failure["rank"] for failure in failures}
    crashed = [rank for rank in sorted(speechless) if exit_codes[rank] != -signal.SIGTERM or not failures]
    if crashed:
        rank = min(crashed, key=lambda rank: exit_codes[rank] == -signal.SIGTERM)
        code = exit_codes[rank]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        logs = directory.glob(f"*/attempt_0/{rank}/stderr.log")
        lines = [line for path in logs for line in path.open(errors="replace")][-LINES_OF_LOG:]
        print(f"process {rank} of {num_processes} {how}\n{''.join(lines)}", end="", file=sys.stderr)
        raise SystemExit(128 - code if code < 0 else code)
    first = min(failures, key=lambda failure: failure["time_ns"])
    if first["sentence"] is not None:
        raise PipelineError(first["sentence"])
    print(f"process {first['rank']} of {num_processes} failed\n{first['traceback']}", end="", file=sys.stderr)
    raise SystemExit(1)


def run_launched(work: Callable[[], None]) -> None:
    """Do the work in a process that ``launch`` started; a failure is left for the launcher to show."""
    threading.Thread(target=_end_with_launcher, args=(int(os.environ[LAUNCHER]),), daemon=True).start()
    try:
        work()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        known = error if isinstance(error, PipelineError) else storage_error(error)
        sentence = None if known is None else str(known)
        failure = {"time_ns": time.time_ns(), "sentence": sentence, "traceback": traceback.format_exc()}
        write_json(Path(os.environ[DIRECTORY]) / f"{os.environ['RANK']}.json", failure)
        raise SystemExit(1) from None


def _end_with_launcher(launcher: int) -> None:
    # Without it, processes whose launcher was killed would train on beside those of the next run.
    while os.getppid() == launcher:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
