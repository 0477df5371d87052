"""Starts a stage with torchrun in several processes; the first failure ends them all and is shown once."""

import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pipeline.command import Terminated
from pipeline.errors import ConfigError, PipelineError, storage_error

DIRECTORY, LAUNCHER = "PIPELINE_LAUNCH_DIRECTORY", "PIPELINE_LAUNCHER"
"""Variables: where processes leave their errors of one sentence for the launcher; the launcher's process id."""


def thread_share(processes: int) -> dict[str, str]:
    """OMP_NUM_THREADS of each of so many processes at once, for their environment; empty where it is set already."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // processes, 1))}


def launch(module: str, arguments: Sequence[str], num_processes: int) -> None:
    """Run ``python -m module`` in several processes that can find each other; only the first one's output is shown.

    The module must call ``run_launched``. Raises ConfigError where there are GPUs, but fewer, PipelineError for one
    that ended a process, SystemExit for another failure, which is printed, and KeyboardInterrupt or Terminated for a
    signal.
    """
    import torch
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if 0 < (gpus := torch.cuda.device_count()) < num_processes:
        raise ConfigError(f"distributed: {num_processes} processes need as many GPUs, but this machine has {gpus}")
    # The agent logs a table of a failure without its reason.
    logging.disable(logging.CRITICAL)
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="launch.") as directory:
        os.environ |= {DIRECTORY: directory, LAUNCHER: str(os.getpid()), **thread_share(num_processes)}
        hidden = ",".join(f"{rank}:3" for rank in range(1, num_processes))
        options = ["--standalone", f"--nproc-per-node={num_processes}", f"--log-dir={directory}"]
        options += ["--signals-to-handle=SIGTERM,SIGUSR1,SIGINT,SIGHUP,SIGQUIT"]
        try:
            torchrun.run(torchrun.parse_args([*options, f"--redirects={hidden}", "-m", module, *arguments]))
        except SignalException as stopped:
            raise (KeyboardInterrupt if stopped.sigval == signal.SIGINT else Terminated) from None
        except ChildFailedError as failed:
            exit_codes = {rank: failure.exitcode for rank, failure in failed.failures.items()}
            _raise_failure(Path(directory), exit_codes, num_processes)
        finally:
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]


def _raise_failure(directory: Path, exit_codes: dict[int, int], num_processes: int) -> NoReturn:
    """Raise what ended the processes, not what followed from it in those that were left."""
    # Killed for its memory, a fault in native code; SIGTERM is how the others are ended.
    killed = [rank for rank, code in exit_codes.items() if code < 0 and code != -signal.SIGTERM]
    sentences = sorted(directory.glob("*.sentence"))
    if sentences and not killed:
        raise PipelineError(sentences[0].read_text())
    rank = min(exit_codes, key=lambda rank: (rank not in killed, exit_codes[rank] == -signal.SIGTERM, rank))
    code = exit_codes[rank]
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    logs = directory.glob(f"*/attempt_0/{rank}/stderr.log")
    lines = [line for path in logs for line in path.open(errors="replace")][-30:]
    print(f"{''.join(lines)}process {rank} of {num_processes} {how}", file=sys.stderr)
    raise SystemExit(128 - code if code < 0 else code)


def run_launched(work: Callable[[], None]) -> None:
    """Do the work in a process that ``launch`` started; an error of one sentence is left for the launcher to show."""
    threading.Thread(target=_end_with_launcher, args=(int(os.environ[LAUNCHER]),), daemon=True).start()
    try:
        work()
    except (KeyboardInterrupt, Terminated) as stopped:
        raise SystemExit(143 if isinstance(stopped, Terminated) else 130) from None
    except Exception as error:
        known = error if isinstance(error, PipelineError) else storage_error(error)
        if known is None:
            raise
        (Path(os.environ[DIRECTORY]) / f"{time.time_ns()}.sentence").write_text(str(known))
        raise SystemExit(1) from None


def _end_with_launcher(launcher: int) -> None:
    # Without it, processes whose launcher was killed would train on beside those of the next run.
    while os.getppid() == launcher:
        time.sleep(0.5)
    os._exit(1)
