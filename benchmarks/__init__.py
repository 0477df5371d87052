"""Timings of the pipeline's costly parts against plain implementations, in the same run."""

# Sets how idle threads wait, which has no effect once torch is imported.
import pipeline  # noqa: F401
