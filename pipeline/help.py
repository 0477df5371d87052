"""Help of any command before Python imports the command."""

import itertools
import sys

from pipeline import PROJECT
from pipeline.commands import COMMANDS, parse_arguments


def help_at_once() -> None:
    """Print the help of the module that Python is about to run as ``python -m MODULE --help``."""
    module = dict(itertools.pairwise(sys.orig_argv)).get("-m", "")
    source = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    if module in COMMANDS:
        parse_arguments(module)
    # Of a module that does not exist Python says so itself.
    elif module.startswith(("pipeline.stages.", "pipeline.axes.")) and source.is_file():
        # The declarations of all stages, which the other commands need not read.
        from pipeline.dag.options import parse_options

        parse_options(module, sys.argv[1:])
