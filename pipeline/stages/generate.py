"""Sample what all axes ask of one model under one condition, with one load of the model."""

from pipeline.dag.execution import command_line
from pipeline.dag.execution import run_parts as main

__all__ = ["main"]

if __name__ == "__main__":
    command_line()
