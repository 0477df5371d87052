"""The command-line edge that all stages share."""

import argparse
import ctypes
import signal
import sys
from collections.abc import Callable
from types import FrameType

from pipeline.errors import PipelineError, first_line, is_out_of_memory, storage_error

RESUMES = "finished parts are kept and the next run resumes"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""
KEPT_BYTES = 1 << 30
"""Freed memory up to this size, and blocks up to this size, stay with the process."""


class Terminated(BaseException):
    """SIGTERM came; like KeyboardInterrupt not an Exception, so that nothing on the way catches it."""


def _terminate(number: int, frame: FrameType | None) -> None:
    # Once: a second signal must not break the tidying up that the first one started.
    signal.signal(number, signal.SIG_IGN)
    raise Terminated


def keep_freed_memory() -> None:
    """Let the C library of Linux keep what is freed, for the next tensors, until the process ends.

    It would give every larger block back to the system, which clears it page by page when the next one asks for it:
    half and more of the time in which a small model samples on a CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(parameter, KEPT_BYTES)


def _fail(message: str, status: int) -> SystemExit:
    print(message, file=sys.stderr)
    return SystemExit(status)


def run_command(
    main: Callable[..., None], arguments: argparse.Namespace | None = None, *, kept: str | None = RESUMES
) -> None:
    """Call ``main`` with the parsed arguments, if any.

    A PipelineError, a file system that refuses, and a GPU whose memory is full become one line and exit status 1.
    Ctrl-C and SIGTERM (with which Slurm and Kubernetes announce that they will kill) end with status 130 and 143.
    Anything else keeps its traceback.
    ``kept`` is what a user who has ended it is told of its work, None for nothing.
    """
    keep_freed_memory()
    ending = f"; {kept}" if kept else ""
    before = signal.signal(signal.SIGTERM, _terminate)
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
    finally:
        signal.signal(signal.SIGTERM, before)
