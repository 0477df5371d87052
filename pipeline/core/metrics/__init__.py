"""Metrics of the evaluation axes, one module per axis."""
