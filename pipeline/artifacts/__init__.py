"""Artifacts on disk: their formats, atomic writes, rows that survive a kill, and locks."""
