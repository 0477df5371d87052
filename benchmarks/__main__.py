"""Measure training, sampling and tries against plain baselines: ``python -m benchmarks training sampling``.

A case that benchmarks/results.csv has of the present commit and processor is not measured again.
"""

import argparse
import importlib
import os
import time
from pathlib import Path

from benchmarks.results import FIGURE, PAGE, RESULTS, Results, revision
from benchmarks.table import cell
from pipeline import PROJECT
from pipeline.command import CommandParser

BENCHMARKS = ("training", "sampling", "tries")


def main(only: list[str], output: Path, repeats: int) -> None:
    """Run the chosen benchmarks; each case is written as soon as it is there."""
    results = Results(output, revision())
    for name in only:
        for case, measure in importlib.import_module(f"benchmarks.{name}").cases():
            title = " ".join(filter(None, (name, case.model, case.case, case.dtype)))
            if results.has(case):
                print(f"{title}: kept", flush=True)
                continue
            load, started = os.getloadavg()[0], time.monotonic()
            rows = measure(repeats)
            results.replace(case, rows, load)
            found = (f"{row['implementation']} {cell(row.get('seconds', row['note']))}" for row in rows)
            print(f"{title}: {', '.join(found)} (took {time.monotonic() - started:.0f} s)", flush=True)
    results.write()
    print(f"written to {', '.join(str(output / name) for name in (RESULTS, PAGE, FIGURE))}")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("only", nargs="*", default=list(BENCHMARKS), help=f"some of {', '.join(BENCHMARKS)}")
    parser.add_argument(
        "--output", type=Path, default=PROJECT, help=f"where {RESULTS} and {PAGE} are (default: this checkout)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds of a case, fewer of a slow one (default: 5)")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.only if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    if arguments.repeats < 1:
        parser.error(f"--repeats: {arguments.repeats} is too few; at least 1 is needed")
    return arguments


if __name__ == "__main__":
    main(**vars(parse_arguments()))
