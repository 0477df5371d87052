"""Semantic calibration of a model's answers."""
