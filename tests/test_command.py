"""What all commands of the pipeline share."""

import os
import subprocess
import sys

import pytest

from pipeline import ALLOCATOR, PROJECT
from pipeline.command import CommandParser, run_command


@pytest.mark.skipif(not ALLOCATOR.exists(), reason="its package is for Linux")
@pytest.mark.parametrize(("preloaded", "replaced"), [(None, True), ("", False)])
def test_commands_begin_under_mimalloc_unless_something_is_preloaded(preloaded, replaced):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment |= {"MIMALLOC_VERBOSE": "1"} | ({} if preloaded is None else {"LD_PRELOAD": preloaded})
    # Not one that imports pyarrow, which has a mimalloc of its own.
    command = [sys.executable, "-m", "pipeline.compose", "no value"]
    shown = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True)
    assert (
        ("mimalloc" in shown.stderr) == replaced and shown.returncode == 1 and "no value: an override" in shown.stderr
    )


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
