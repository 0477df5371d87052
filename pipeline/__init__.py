"""Calibration Fine-Tuning (arXiv:2605.11845): language models as calibrated samplers."""

import importlib
import os
import sys
import sysconfig
from pathlib import Path

# Before torch is imported: waiting threads that spin cost a shared machine two to four times the wall time, while a few
# microseconds of it bridge the gaps between a small model's operators (a quarter of a training step of the embedded
# model). Set GOMP_SPINCOUNT to 0 where several such processes share the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

PROJECT = Path(__file__).resolve().parents[1]
"""The checkout that the running code is of; a sweep's cell only links to it."""

# Help must not wait for the libraries of the command. While Python looks for a module to run, the program is "-m".
if sys.argv[0] == "-m" and {"-h", "--help"} & {*sys.argv[1:]}:
    # By its name, as a package that imports its own modules would be a circle.
    importlib.import_module("pipeline.help").help_at_once()

# glibc searches long lists of freed blocks for each large one, a fifth of the time that a real model's training takes.
# Another allocator can only take its place as a process begins, so this one begins again. The wheel is for Linux alone.
ALLOCATOR = Path(sysconfig.get_path("purelib"), "cmeel.prefix", "lib", "libmimalloc.so")
if sys.argv[0] == "-m" and "LD_PRELOAD" not in os.environ and ALLOCATOR.exists():
    os.environ["LD_PRELOAD"] = str(ALLOCATOR)
    # Pages given back after each step would be zeroed again in the next, a quarter of a training's time.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
