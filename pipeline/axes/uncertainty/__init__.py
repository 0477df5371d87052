"""Uncertainty at inference, against people's and against right and wrong."""
