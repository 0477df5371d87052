"""What all commands of the pipeline share."""

import resource
import subprocess
import sys

import pytest

from pipeline import PROJECT, command
from pipeline.command import CommandParser, keep_freed_memory, run_command
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


def test_a_gpu_whose_memory_is_full_is_one_sentence(monkeypatch, capsys):
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    def main():
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore of it")

    monkeypatch.setattr(command, "keep_freed_memory", lambda: None)
    with pytest.raises(SystemExit):
        run_command(main)
    (line,) = capsys.readouterr().err.splitlines()
    assert "memory is full (CUDA out of memory. Tried to allocate 2 GiB.); lower batch_size or tokens_per_pass" in line
    assert line.endswith("the next run resumes")


@pytest.mark.parametrize("module", ["pipeline.stages.report", "pipeline.sample"])
def test_help_needs_no_library_of_the_command(module):
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", module, "--help"], cwd=PROJECT, capture_output=True, text=True
    )
    assert shown.returncode == 0 and shown.stdout.startswith(f"usage: python -m {module}")
    assert not {"pandas", "pydantic", "torch", "scipy"} & {
        line.split("|")[-1].strip() for line in shown.stderr.splitlines()
    }
