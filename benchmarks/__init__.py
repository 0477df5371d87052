"""Timings of the pipeline's costly parts against plain implementations, in the same run."""
