"""Definitions of every metric in ``metrics.csv``, the one place where they are written down."""

from pipeline.metrics.definition import Definition
from pipeline.metrics.definitions_language import LANGUAGE
from pipeline.metrics.definitions_structured import STRUCTURED

__all__ = ["DEFINITIONS", "Definition"]

DEFINITIONS: dict[str, Definition] = {**STRUCTURED, **LANGUAGE}
"""Definition by metric name."""
