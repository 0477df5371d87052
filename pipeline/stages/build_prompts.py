"""Write the prompts of every split and axis."""

from pipeline.dag.execution import command_line
from pipeline.dag.execution import run_parts as main

__all__ = ["main"]

if __name__ == "__main__":
    command_line()
