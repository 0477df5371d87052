"""What was measured: a CSV file that grows case by case, the table of docs/performance.md, and its figure."""

import csv
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figure import draw
from benchmarks.measure import Case, Row, processor
from benchmarks.table import markdown
from pipeline import PROJECT
from pipeline.artifacts.atomic import atomic_path
from pipeline.record.provenance import git_revision

RESULTS, PAGE, FIGURE = "benchmarks/results.csv", "docs/performance.md", "docs/images/performance.png"
COLUMNS = (
    *("benchmark", "case", "model", "dtype", "paths", "implementation", "seconds", "min", "max", "repeats", "ratio"),
    *("tokens", "peak_mb", "retained_mb", "note", "processor", "threads", "load", "commit"),
)
_MEASURED = re.compile(r"(<!-- measured -->\n).*(<!-- end -->)", re.DOTALL)


def revision() -> str:
    """The commit of the code in eight digits, with a "+" where code or settings differ from it."""
    commit = (git_revision() or {"commit": "none"})["commit"][:8]
    changed = ["git", "-C", str(PROJECT), "diff", "--quiet", "HEAD", "--", "*.py", "conf"]
    return commit + "+" * (subprocess.run(changed).returncode != 0)


class Results:
    """The rows in a checkout, and those that are measured of ``revision``; files are written after each case."""

    def __init__(self, root: Path, revision: str):
        self.root, self._revision = root, revision
        path = root / RESULTS
        self.rows = list(csv.DictReader(path.open())) if path.exists() else []

    def has(self, case: Case) -> bool:
        """Whether the case was measured on this processor at this commit; code with changes is measured again."""
        wanted = asdict(case) | {"processor": processor(), "commit": self._revision}
        return "+" not in self._revision and any(row.items() >= wanted.items() for row in self.rows)

    def replace(self, case: Case, rows: Sequence[Row], load: float) -> None:
        """Put new rows of a case in the place of its old ones; write all files."""
        key = asdict(case)
        common = key | {"processor": processor(), "load": f"{load:.1f}", "commit": self._revision}
        new = [{name: _text((common | row).get(name, "")) for name in COLUMNS} for row in rows]
        others = [row for row in self.rows if not row.items() >= key.items()]
        place = next((place for place, row in enumerate(self.rows) if row not in others), len(others))
        self.rows = [*others[:place], *new, *others[place:]]
        self.write()

    def write(self) -> None:
        """The CSV file, the figure, and the page's table between its two comments, where there is the page."""
        with atomic_path(self.root / RESULTS) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        draw(self.rows, self.root / FIGURE)
        page = self.root / PAGE
        if page.exists():
            table = markdown(self.rows)
            text = _MEASURED.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page.read_text())
            with atomic_path(page) as temporary:
                temporary.write_text(text)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
