"""Modules in processes of their own that are forked from this one, which has loaded what they take."""

import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]


def run_module(module: str, arguments: list[str]) -> None:
    """In a child: run a module as ``python -m`` does, in the current directory."""
    directory = os.getcwd()
    sys.argv[1:] = arguments
    sys.path.insert(0, directory)
    # Files of their own: one that goes out of use would close what the next one writes to.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    code = Path(directory, "pipeline")
    other = code.exists() and not code.samefile(ROOT / "pipeline")
    # What runs as the main program must not be loaded under its own name as well.
    sys.modules.pop(module, None)
    if other:
        # Looking at the names of all modules copies the memory that they lie in, so not in every child.
        for name in [name for name in sys.modules if name.partition(".")[0] == "pipeline"]:
            del sys.modules[name]
    if torch := sys.modules.get("torch"):
        # Behind a fork PyTorch makes its pool of threads anew at the first use, which fails where several threads are
        # the first, as when a model is loaded.
        torch.set_num_threads(torch.get_num_threads())
    if bars := sys.modules.get("tqdm"):
        # A process of its own has a lock of its own; one that was killed while it held this one would hold it forever.
        bars.tqdm.set_lock(threading.RLock())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(work: Callable[[], None]) -> NoReturn:
    """In a child: do the work, and end with the exit status that a process of its own would have."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as stopped:
        status = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        # Whatever happens, it must not go on as the process that it was forked from.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def fork(work: Callable[[], None]) -> int:
    """The number of a child that does the work and ends with it."""
    child = os.fork()
    if child == 0:
        end_with(work)
    return child


def in_child(work: Callable[[], None]) -> int:
    """Exit status of a child that does the work, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1])


class ForkedModule:
    """``python -m`` in a child of this process, with as much of ``subprocess.Popen`` as signals take.

    ``command`` is what follows ``python -m``; ``variables`` are of the environment besides those of this process.
    ``returncode`` is negative for a signal, None while it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        errors: Path | str = os.devnull,
        output: Path | str = os.devnull,
        **variables: str,
    ):
        self.returncode: int | None = None
        self._errors, self._output = Path(errors), Path(output)
        sys.stdout.flush()
        sys.stderr.flush()

        def run() -> None:
            os.environ |= variables
            # As in a process that was started: what the test has caught and patched stays with the test.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for target, place in ((1, self._output), (2, self._errors)):
                os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), target)
            os.chdir(directory)
            module, *arguments = command
            run_module(module, arguments)

        self.pid = fork(run)

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    @property
    def errors(self) -> str:
        return self._errors.read_text()
