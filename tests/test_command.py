"""What all commands of the pipeline share."""

import resource
import sys

import pytest

from pipeline.command import keep_freed_memory
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
