"""Have other models judge the answers of one model under all conditions, with one load of each judge."""

from pipeline.dag.execution import command_line
from pipeline.dag.execution import run_parts as main

__all__ = ["main"]

if __name__ == "__main__":
    command_line()
