"""Sample what axes ask of one base checkpoint that is asked or decoded in another way."""

from pipeline.dag.execution import command_line
from pipeline.dag.execution import run_parts as main

__all__ = ["main"]

if __name__ == "__main__":
    command_line()
