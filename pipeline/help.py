"""Help of any command before Python imports the command."""

import itertools
import sys

from pipeline.commands import COMMANDS, parse_arguments


def help_at_once() -> None:
    """Print the help of the module that Python is about to run as ``python -m MODULE --help``."""
    module = dict(itertools.pairwise(sys.orig_argv)).get("-m", "")
    if module in COMMANDS:
        parse_arguments(module)
    elif module.startswith(("pipeline.stages.", "pipeline.axes.")):
        # The declarations of all stages, which the other commands need not read.
        from pipeline.dag.options import parse_options

        parse_options(module, sys.argv[1:])
