"""Errors that a user can act on: one sentence and exit status 1. Anything else is a defect and keeps its traceback."""

import difflib
import errno
import os
import re
from collections.abc import Iterable


class PipelineError(Exception):
    """Something the user gave (a file, key or value) is not usable; the message says which."""


class ConfigError(PipelineError):
    """A configuration key or value is not allowed."""


class ArtifactError(PipelineError):
    """A file is missing, truncated or of another format."""


class UnavailableError(ArtifactError):
    """A stage's input is not there, because its axis is off or the model could not be run."""


class ModelError(PipelineError):
    """A checkpoint, tokenizer or adapter cannot be used as configured."""


class BusyError(PipelineError):
    """Another run holds what this one needs."""


class DomainError(PipelineError, ValueError):
    """A distribution family or its parameters are outside what is defined."""


UNCHANGED = "what was there is unchanged, and the next run continues"
ALLOW = "give the account of this run access to it and to its directory"
REMEDIES = {
    errno.ENOSPC: f"free some space (`dvc gc -w` drops cached results that the workspace does not use); {UNCHANGED}",
    errno.EDQUOT: f"free some of your quota (`dvc gc -w` drops cached results); {UNCHANGED}",
    errno.EFBIG: f"raise the limit on the size of files (`ulimit -f`); {UNCHANGED}",
    errno.EIO: f"see the system's log for the device; {UNCHANGED}",
    errno.EROFS: "mount the file system for writing, or set `artifacts` to a directory on another one",
    errno.EACCES: ALLOW,
    errno.EPERM: ALLOW,
}
"""What to do, by the number of the operating system's error."""


class StorageError(PipelineError):
    """The file system refuses: it is full, over quota, read-only or not permitted. ``number`` is one of REMEDIES."""

    def __init__(self, number: int, path: str | None):
        super().__init__(f"{path or 'a file'}: {os.strerror(number).lower()}; {REMEDIES[number]}")
        self.number, self.path = number, path


def storage_error(error: BaseException, path: str | None = None) -> StorageError | None:
    """The StorageError that an exception or one of its causes amounts to, of ``path`` if it names none; else None."""
    cause, seen = error, set()
    # A library may have made a circle of causes.
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, PipelineError):
            return cause if isinstance(cause, StorageError) else None
        number, named = _error_number(cause), getattr(cause, "filename", None) or path
        # Without a path, "permission denied" may be about anything, a socket for example.
        if number in REMEDIES and (named or number not in (errno.EACCES, errno.EPERM, errno.EIO)):
            return StorageError(number, None if named is None else os.fsdecode(named))
        cause = cause.__cause__
    return None


def _error_number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    # NumPy says how much was written; safetensors and tokenizers put the number into the text.
    if isinstance(error, OSError) and re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return errno.ENOSPC
    stated = re.search(r"\b(?:os error|code:|errno) (\d+)", str(error), re.IGNORECASE)
    return int(stated[1]) if stated else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the GPU's memory is full; torch, which has the type, need not be loaded."""
    return type(error).__name__ == "OutOfMemoryError" or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "did you mean A or B? " with the known names nearest to one; empty without any."""
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(nearest)}? " if nearest else ""
