"""Calibration Fine-Tuning (arXiv:2605.11845): language models as calibrated samplers."""

import os
from pathlib import Path

# Has to be set before torch is imported: waiting threads that spin cost a shared machine
# two to four times the wall time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A few microseconds of spinning bridge the gaps between a small model's operators: a training step
# of the embedded model takes three quarters of the time with them. Set it to 0 where several
# such processes share the cores: they then take up to twice the time.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

PROJECT = Path(__file__).resolve().parents[1]
"""The checkout that the running code is of; a sweep's cell only links to it."""
