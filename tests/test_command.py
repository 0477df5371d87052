"""What all commands of the pipeline share."""

import resource
import sys

import pytest

from pipeline.command import CommandParser, keep_freed_memory
from tests.forked import in_child

BLOCK_BYTES = 40 << 20
"""More than the largest block that glibc keeps by itself."""


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries are left as they are")
def test_freed_memory_is_used_again():
    def fill_blocks():
        keep_freed_memory()
        faults = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            bytearray(BLOCK_BYTES)
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        pages = BLOCK_BYTES // resource.getpagesize()
        assert max(faults[1:]) < pages / 10, faults

    assert in_child(fill_blocks) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--job", "3"], "error: there is no option --job; did you mean --jobs? there are -h, --help, --jobs, --axis"),
        (["--jobs", "many"], "error: --jobs: invalid int value: 'many'"),
        (["--axis", "opem"], "error: --axis: there is no 'opem'; did you mean open? there are open, mcq"),
    ],
)
def test_wrong_options_are_one_line_with_what_is_allowed(capsys, arguments, message):
    parser = CommandParser()
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--axis", choices=["open", "mcq"])
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(arguments)
    assert capsys.readouterr().err == f"{message}\n"
