"""Follow a table's cell back to evaluation, samples, adapter, prompts, parameters, seeds, commits and machines.

Every hash on the way is compared with the files that are there. Exit status 1 if one differs.
"""

import argparse
import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json, require
from pipeline.axes.registry import metric_sources
from pipeline.command import run_command
from pipeline.errors import ArtifactError, ConfigError
from pipeline.record.provenance import split_sources
from pipeline.runs.lineage import MISMATCH, MISSING, OK, Artifact, Lineage, artifact_lines

LABELS = ("axis", "model", "condition", "split", "family", "metric")
# What a table is read for, where no column is named.
DEFAULT_COLUMNS = ("value", "difference", "gp_irt", "utility", "mean")
MAX_CHOICES = 12


@dataclass(frozen=True)
class TableCell:
    """One cell of a CSV table of the report.

    Attributes:
        table: The CSV file.
        number: Row, counted from 1 without the header.
        column: Name of the column.
        row: All texts of the row by column.
    """

    table: Path
    number: int
    column: str
    row: dict[str, str]

    @property
    def text(self) -> str:
        """What the cell holds."""
        return self.row[self.column]

    @property
    def evaluations(self) -> list[str]:
        """Records of the evaluations behind the cell. Raises ArtifactError where there is none."""
        if "provenance" not in self.row:
            raise ArtifactError(f"{self.table} has no column provenance; `make tables` writes it")
        found = split_sources(self.row["provenance"])
        if not found:
            reason = self.row.get("status", "") or "no provenance"
            raise ArtifactError(f"{self.table} row {self.number}: no evaluation stands behind this cell ({reason})")
        return found


def read_rows(table: Path) -> list[dict[str, str]]:
    """The rows of a CSV table as texts. Raises ArtifactError."""
    if table.suffix != ".csv":
        raise ArtifactError(f"{table} is not a CSV file; every table has one beside its {table.suffix or 'other'} form")
    with require(table).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ArtifactError(f"{table} has no rows")
    return rows


def _choices(values: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(value or "(empty)" for value in values))
    more = f" and {len(distinct) - MAX_CHOICES} more" if len(distinct) > MAX_CHOICES else ""
    return ", ".join(distinct[:MAX_CHOICES]) + more


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _narrow(rows: list[tuple[int, dict[str, str]]], selector: str, table: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows that a selector allows: a row number, ``COLUMN=VALUE``, or a text that any column holds."""
    columns = list(rows[0][1])
    column, equals, value = selector.partition("=")
    if selector.isdigit():
        kept = [(number, row) for number, row in rows if number == int(selector)]
        choices = f"its rows are {rows[0][0]} to {rows[-1][0]}"
    elif equals and column not in columns:
        raise ConfigError(f"--row {selector}: {table} has no column {column!r}; its columns are {', '.join(columns)}")
    elif equals:
        kept = [(number, row) for number, row in rows if row[column] == value]
        choices = f"the column holds {_choices([row[column] for _, row in rows])}"
    else:
        kept = [(number, row) for number, row in rows if selector in row.values()]
        choices = f"no column holds it; choose by COLUMN=VALUE, the columns are {', '.join(columns)}"
    if not kept:
        raise ConfigError(f"--row {selector}: no such row in {table}; {choices}")
    return kept


def select_cell(table: Path, selectors: Sequence[str], column: str | None) -> TableCell:
    """The one cell that the selectors and the column name.

    Args:
        table: CSV file.
        selectors: Row number, ``COLUMN=VALUE`` or a text that some column of the row holds; all must agree.
        column: A column; or, as in the printed table, a text that a column of the row holds ("soft"). None takes the
            column of values.

    Raises:
        ArtifactError: No such table.
        ConfigError: No row or more than one, or no such column; names the choices.
    """
    rows = list(enumerate(read_rows(table), start=1))
    columns = list(rows[0][1])
    if column is not None and column not in columns:
        if not any(column in row.values() for _, row in rows):
            raise ConfigError(f"--column {column}: {table} has no such column; its columns are {', '.join(columns)}")
        selectors, column = [*selectors, column], None
    for selector in selectors:
        rows = _narrow(rows, selector, table)
    if len(rows) > 1:
        differing = {name: values for name in columns if len(set(values := [row[name] for _, row in rows])) > 1}
        # Results differ, too, but nobody chooses by them.
        labels = {name: values for name, values in differing.items() if not all(map(_is_number, values))} or differing
        choices = "; ".join(f"{name}: {_choices(values)}" for name, values in labels.items())
        raise ConfigError(
            f"{len(rows)} rows of {table} fit (numbers {_choices([str(number) for number, _ in rows])}); choose one "
            f"with --row NUMBER or --row COLUMN=VALUE. They differ in {choices}"
        )
    column = column or next((name for name in DEFAULT_COLUMNS if name in columns), None)
    if column is None:
        raise ConfigError(f"--column: {table} has the columns {', '.join(columns)}; name one")
    ((number, row),) = rows
    return TableCell(table, number, column, row)


def project_root(path: Path) -> Path:
    """The directory of the DAG that a file belongs to: the next one upwards with a ``dvc.yaml``, or this one."""
    # The file itself may be a link into DVC's cache.
    directory = path.parent.resolve()
    return next((place for place in (directory, *directory.parents) if (place / "dvc.yaml").exists()), Path("."))


def check_value(cell: TableCell, root: Path) -> tuple[str, str]:
    """Status and explanation of the comparison of a metric's cell with the evaluation's ``metrics.json``."""
    named = all(name in cell.row for name in ("axis", "model", "condition", "split", "metric", cell.column))
    if not named or cell.column not in ("value", "n", "ci_low", "ci_high", "floor") or len(cell.evaluations) > 1:
        return "not compared", "the cell is computed from the evaluation's tables, or from several evaluations"
    path = Path(cell.evaluations[0]).with_name("metrics.json")
    if not (root / path).exists():
        return MISSING, f"{path} is not on this disk"
    wanted = {name: cell.row.get(name, "") for name in LABELS}
    rows = [row for row in read_json(root / path)["metrics"] if {name: row[name] for name in LABELS} == wanted]
    if not rows:
        return "not compared", f"{path} has no metric of this name and split"
    value = rows[0][cell.column]
    expected = math.nan if value is None else float(value)
    found = float(cell.text) if cell.text else math.nan
    if found == expected or (math.isnan(found) and math.isnan(expected)):
        return OK, f"as in {path}"
    return MISMATCH, f"{path} has {expected!r}"


@dataclass(frozen=True)
class Origin:
    """All about a cell.

    Attributes:
        cell: The cell.
        comparison: Status and explanation of ``check_value``.
        sources: Where the metric is computed.
        evaluations: The evaluations behind the cell, with all that is upstream.
        roots: The directory of the DAG that each evaluation is of.
        lineages: Every artifact on the way, by the directory of its DAG: a table of a sweep has one for each cell.
    """

    cell: TableCell
    comparison: tuple[str, str]
    sources: list[dict[str, str]]
    evaluations: list[Artifact]
    roots: list[Path]
    lineages: dict[Path, Lineage]

    @property
    def mismatches(self) -> list[str]:
        """All values and hashes that differ, in words."""
        status, text = self.comparison
        found = [mismatch for lineage in self.lineages.values() for mismatch in lineage.mismatches]
        return [*([f"the table's cell: {text}"] if status == MISMATCH else []), *found]

    def name(self, root: Path, path: str) -> str:
        """An artifact's path as seen from the table's own DAG."""
        home = project_root(self.cell.table).resolve()
        if root == home:
            return path
        return str((root / path).relative_to(home) if root.is_relative_to(home) else root / path)

    @property
    def artifacts(self) -> dict[str, Artifact]:
        """Every artifact on the way by its path, seen from the table's own DAG."""
        return {
            self.name(root, path): artifact
            for root, lineage in self.lineages.items()
            for path, artifact in lineage.artifacts.items()
        }


def trace_cell(table: Path, row: Sequence[str], column: str | None) -> Origin:
    """Where a cell comes from. Raises ConfigError for an unclear choice and ArtifactError for a broken record."""
    cell = select_cell(table, row, column)
    root = project_root(table)
    lineages: dict[Path, Lineage] = {}
    evaluations, roots = [], []
    for path in cell.evaluations:
        # What a sweep's cell computed was read and written in the cell's own directory. Where the file is gone, so is
        # the cell, and the path is all there is.
        place = (root / path).parent.resolve()
        home = project_root(place / "provenance.json") if (root / path).exists() else root.resolve()
        inside = place.relative_to(home) if place.is_relative_to(home) else Path(path).parent
        roots.append(home)
        evaluations.append(lineages.setdefault(home, Lineage(home)).trace(str(inside)))
    sources = metric_sources(cell.row.get("metric", ""))
    return Origin(cell, check_value(cell, root), sources, evaluations, roots, lineages)


def _cell_lines(origin: Origin) -> Iterator[str]:
    """The cell, its labels, and whether the evaluation has the same value."""
    cell, row = origin.cell, origin.cell.row
    yield f"{cell.table}, row {cell.number}, column {cell.column}: {cell.text or '(empty)'}"
    numbers = ("value", "n", "ci_low", "ci_high", "floor", "undefined", "provenance")
    yield "  " + ", ".join(f"{name} {text}" for name, text in row.items() if text and name not in numbers)
    if row.get("n"):
        interval = f", 95% interval [{row['ci_low']}, {row['ci_high']}]" if row.get("ci_low") else ""
        floor = f", perfect sampler {row['floor']}" if row.get("floor") else ""
        yield f"  n = {row['n']}{interval}{floor}"
    status, text = origin.comparison
    yield f"  value: {status}, {text}"
    for source in origin.sources:
        yield f"  metric: {source['file']} {source['name']}{': ' if source['says'] else ''}{source['says']}"


def _text(origin: Origin) -> Iterator[str]:
    yield from _cell_lines(origin)
    shown: dict[Path, set[str]] = {}
    for root, evaluation in zip(origin.roots, origin.evaluations, strict=True):
        yield ""
        if (place := origin.name(root, "")) not in ("", "."):
            yield f"in {place}:"
        yield from artifact_lines(evaluation, shown.setdefault(root, set()))
    missing = [path for path, artifact in origin.artifacts.items() if artifact.status == MISSING]
    if missing:
        yield ""
        yield f"MISSING on this disk (`dvc pull` fetches what a remote has): {', '.join(missing)}"


def _json(origin: Origin) -> dict[str, Any]:
    cell, (status, text) = origin.cell, origin.comparison
    paths = [artifact.path for artifact in origin.evaluations]
    return {
        "table": str(cell.table),
        "row_number": cell.number,
        "column": cell.column,
        "row": cell.row,
        "comparison": {"status": status, "text": text},
        "metric_sources": origin.sources,
        "evaluations": [origin.name(*pair) for pair in zip(origin.roots, paths, strict=True)],
        "artifacts": {path: artifact.as_json() for path, artifact in origin.artifacts.items()},
        "mismatches": origin.mismatches,
    }


def main(table: Path, row: list[str], column: str | None, as_json: bool) -> None:
    """Print a cell's origin. Raises ArtifactError where a hash or value differs."""
    origin = trace_cell(table, row, column)
    print(json.dumps(_json(origin), indent=2) if as_json else "\n".join(_text(origin)))
    if origin.mismatches:
        raise ArtifactError(f"MISMATCH: {'; '.join(origin.mismatches)}")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.runs.trace",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", type=Path, help="CSV table, e.g. reports/tables/table6.csv or reports/metrics.csv")
    parser.add_argument(
        "--row",
        nargs="+",
        default=[],
        metavar="SELECTOR",
        help="row number, COLUMN=VALUE, or a text that the row holds; several narrow it down",
    )
    parser.add_argument("--column", help="column, or a condition as in the printed table (default: the value)")
    parser.add_argument("--json", action="store_true", dest="as_json", help="everything, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
