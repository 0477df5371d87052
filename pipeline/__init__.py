"""Calibration Fine-Tuning (arXiv:2605.11845): language models as calibrated samplers."""

import os

# Has to be set before torch is imported: waiting threads that spin cost a shared machine
# two to four times the wall time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A few microseconds of spinning bridge the gaps between a small model's operators: a training step
# of the embedded model is a quarter faster with them, and no slower on a busy machine.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
