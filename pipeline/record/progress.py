"""Progress bars of stages."""

import sys
from collections.abc import Iterable

from tqdm import tqdm


def progress_bar(iterable: Iterable | None = None, **arguments: object) -> tqdm:
    """A tqdm bar; in a log, from which ``make repro`` reads it, one line in two seconds."""
    seldom = {} if sys.stderr.isatty() else {"mininterval": 2, "maxinterval": 10}
    return tqdm(iterable, **seldom, **arguments)
