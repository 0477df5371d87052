"""Objectives (Eq. 3 and 4), examples and batches."""
