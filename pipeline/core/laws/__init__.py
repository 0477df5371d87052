"""Families of distributions, their parameters, and the canonical strings of a law."""
