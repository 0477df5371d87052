"""What a full or forbidden disk is told from, and what a user reads of it."""

import argparse
import errno
from collections.abc import Callable

import pytest

from pipeline.command import run_command
from pipeline.errors import ArtifactError, storage_error


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EDQUOT, "x"), errno.EDQUOT),
        (OSError("1000 requested and 12 written"), errno.ENOSPC),
        (Exception("No space left on device (os error 28)"), errno.ENOSPC),
        (RuntimeError("IoError(Os { code: 28, kind: StorageFull })"), errno.ENOSPC),
        (OSError("nothing"), None),
        (ArtifactError("[Errno 28]"), None),
        (PermissionError(errno.EACCES, "a socket"), None),
    ],
)
def test_what_counts_as_an_error_of_storage(error, number):
    found = storage_error(error)
    assert (found and found.number) == number
    # A library may have made a circle of causes.
    error.__cause__ = error
    assert (storage_error(error) is None) == (number is None)


def raising(error: BaseException) -> Callable[[], None]:
    def main():
        raise error

    return main


def test_errors_of_storage_are_one_line_and_others_keep_their_traceback(capsys):
    for error in (ValueError("defect"), OSError(errno.ECONNREFUSED, "refused"), FileNotFoundError(2, "no", "x")):
        with pytest.raises(type(error)):
            run_command(raising(error), argparse.Namespace())
    wrapped = RuntimeError("saving failed")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device", "/somewhere/model")
    with pytest.raises(SystemExit) as stopped:
        run_command(raising(wrapped), argparse.Namespace())
    assert stopped.value.code == 1
    assert capsys.readouterr().err == (
        "error: /somewhere/model: no space left on device; free some space (`dvc gc -w` drops cached results that the "
        "workspace does not use); what was there is unchanged, and the next run continues\n"
    )
