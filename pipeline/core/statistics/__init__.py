"""Intervals, paired tests, and tests of a law."""
