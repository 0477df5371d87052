"""Run all benchmarks, print their tables and write them to a directory: ``python -m benchmarks``."""

import argparse
import importlib
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.table import markdown
from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import write_json
from pipeline.command import CommandParser
from pipeline.record.provenance import git_revision

BENCHMARKS = ("tries", "sampling")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main(only: list[str], output: Path) -> None:
    """Run the chosen benchmarks; each table is written as soon as it is there."""
    conditions = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "git": git_revision(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    sections, results = [], {}
    for name in only:
        started = time.monotonic()
        load = os.getloadavg()[0]
        module = importlib.import_module(f"benchmarks.{name}")
        results[name] = module.run()
        heading = f"## {name}\n\n{(module.__doc__ or '').strip()}\n"
        foot = f"\nRun in {time.monotonic() - started:.0f} s; load average before {load:.1f}.\n"
        sections.append(f"{heading}\n{markdown(results[name])}\n{foot}")
        print(sections[-1], flush=True)
        with atomic_path(output / "benchmarks.md") as temporary:
            introduction = ", ".join(f"{key} {value}" for key, value in conditions.items() if key != "git")
            temporary.write_text(f"# Benchmarks\n\n{introduction}\n\n" + "\n".join(sections))
        write_json(output / "benchmarks.json", {"conditions": conditions, "rows": results})
    print(f"written to {output / 'benchmarks.md'} and {output / 'benchmarks.json'}")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("only", nargs="*", default=list(BENCHMARKS), help=f"some of {', '.join(BENCHMARKS)}")
    parser.add_argument("--output", type=Path, default=Path("reports"), help="directory to write (default: reports)")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.only if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    return arguments


if __name__ == "__main__":
    main(**vars(parse_arguments()))
