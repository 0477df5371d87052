"""The command-line edge that all commands share."""

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NoReturn

from pipeline.errors import PipelineError, did_you_mean, first_line, is_out_of_memory, storage_error

RESUMES = "finished parts are kept and the next run resumes"


class CommandParser(argparse.ArgumentParser):
    """A command line that shows its description as it is written, and whose errors are one line."""

    def __init__(self, **settings: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """End with status 2, naming the option, the value, what is allowed, and what is nearest to it."""
        message = message.removeprefix("argument ")
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            options = [option for action in self._actions for option in action.option_strings]
            nearest = did_you_mean(unknown[1], options)
            message = f"there is no option {unknown[1]}; {nearest}there are {', '.join(options)}"
        elif choice := re.match(r"(.+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            known = re.findall(r"[\w.-]+", choice[3])
            nearest = did_you_mean(choice[2], known)
            message = f"{choice[1]}: there is no {choice[2]!r}; {nearest}there are {', '.join(known)}"
        self.exit(2, f"error: {message}\n")


class Terminated(BaseException):
    """One of END_SIGNALS, its argument, came; not an Exception, so that nothing on the way catches it."""


END_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What asks a process to end soon: Slurm and spot machines send them some 30 seconds ahead."""


def terminate(number: int, frame: FrameType | None) -> None:
    """A handler of END_SIGNALS that raises Terminated, once: a further one would break what tidies up."""
    for every in END_SIGNALS:
        signal.signal(every, signal.SIG_IGN)
    raise Terminated(number)


@contextlib.contextmanager
def signals_handled(handler: Callable[[int, FrameType | None], Any], numbers: Iterable[int]) -> Iterator[None]:
    """Within it signals go to a handler, and afterwards where they went before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def ends_between_steps() -> Iterator[Callable[[], bool]]:
    """Within it END_SIGNALS interrupt nothing: what is yielded says whether one came."""
    came: list[int] = []
    with signals_handled(lambda number, frame: came.append(number), END_SIGNALS):
        yield lambda: bool(came)


def _fail(message: str, status: int) -> SystemExit:
    print(message, file=sys.stderr)
    return SystemExit(status)


@signals_handled(terminate, END_SIGNALS)
def run_command(
    main: Callable[..., None], arguments: argparse.Namespace | None = None, *, kept: str | None = RESUMES
) -> None:
    """Call ``main`` with the parsed arguments, if any.

    A PipelineError, a file system that refuses, and a GPU whose memory is full become one line and exit status 1.
    Ctrl-C and END_SIGNALS end with status 130 and 143, and with ``kept``, which says what becomes of the work. Anything
    else keeps its traceback.
    """
    ending = f"; {kept}" if kept else ""
    try:
        main(**vars(arguments or argparse.Namespace()))
    except PipelineError as error:
        raise _fail(f"error: {error}", 1) from None
    except KeyboardInterrupt:
        raise _fail(f"interrupted{ending}", 130) from None
    except Terminated:
        raise _fail(f"terminated{ending}", 143) from None
    except Exception as error:
        if is_out_of_memory(error):
            raise _fail(
                f"error: the GPU's memory is full ({first_line(error)}); lower batch_size or tokens_per_pass of this "
                f"stage's section in params.yaml, which changes no result{ending}",
                1,
            ) from None
        if (refused := storage_error(error)) is None:
            raise
        raise _fail(f"error: {refused}", 1) from None
