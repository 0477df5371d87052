"""One of three processes that take turns, of which none fails, or one; nobody ends the others then."""

import json
import sys
import time
from pathlib import Path

from pipeline.engines.training.distributed import process_group


def main(directory: Path, failing: int) -> None:
    """Take a turn, and write when it began, when it ended, and when all had ended."""
    with process_group("ddp", 3) as group:
        with group.in_turn():
            started = time.monotonic()
            time.sleep(0.05)
            if group.rank == failing:
                raise ZeroDivisionError
            ended = time.monotonic()
        (directory / str(group.rank)).write_text(json.dumps([started, ended, time.monotonic()]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
