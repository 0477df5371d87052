"""The command-line edge that all stages share."""

import argparse
import sys
from collections.abc import Callable

from pipeline.errors import PipelineError


def run_stage(main: Callable[..., None], arguments: argparse.Namespace) -> None:
    """Call ``main`` with the parsed arguments; a PipelineError becomes one sentence and exit status 1."""
    try:
        main(**vars(arguments))
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("interrupted; finished parts are kept and the next run resumes", file=sys.stderr)
        raise SystemExit(130) from None
