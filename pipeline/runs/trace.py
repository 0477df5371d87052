"""Follow a table's cell back to evaluation, samples, adapter, prompts, parameters, seeds, commits and machines.

Every hash on the way is compared with the files that are there. Exit status 1 if one differs.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.storage import read_json, require
from pipeline.axes.registry import metric_sources
from pipeline.command import run_command
from pipeline.errors import ArtifactError, ConfigError
from pipeline.record.provenance import split_sources
from pipeline.runs.lineage import MISMATCH, MISSING, OK, Artifact, Lineage, artifact_lines

LABELS = ("axis", "model", "condition", "split", "family", "metric")
# What a table is read for, where no column is named.
DEFAULT_COLUMNS = ("value", "difference", "gp_irt", "utility", "mean")
NUMBERS = ("value", "n", "ci_low", "ci_high", "floor")
MAX_CHOICES = 12


@dataclass(frozen=True)
class TableCell:
    """One cell of a CSV table of the report; rows are counted from 1 without the header, and have texts by column."""

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
        records = split_sources(self.row["provenance"])
        if not records:
            reason = self.row.get("status", "") or "no provenance"
            raise ArtifactError(f"{self.table} row {self.number}: no evaluation stands behind this cell ({reason})")
        return records


def _choices(values: Iterable[Any]) -> str:
    distinct = list(dict.fromkeys(str(value) or "(empty)" for value in values))
    more = f" and {len(distinct) - MAX_CHOICES} more" if len(distinct) > MAX_CHOICES else ""
    return ", ".join(distinct[:MAX_CHOICES]) + more


def _narrow(rows: pd.DataFrame, selector: str, table: Path) -> pd.DataFrame:
    """The rows that a selector allows: a row number, ``COLUMN=VALUE``, or a text that any column holds."""
    column, equals, value = selector.partition("=")
    if selector.isdigit():
        kept, choices = rows[rows.index == int(selector)], f"its rows are {rows.index[0]} to {rows.index[-1]}"
    elif equals and column not in rows:
        raise ConfigError(f"--row {selector}: {table} has no column {column!r}; its columns are {', '.join(rows)}")
    elif equals:
        kept, choices = rows[rows[column] == value], f"the column holds {_choices(rows[column])}"
    else:
        kept = rows[(rows == selector).any(axis=1)]
        choices = f"no column holds it; choose by COLUMN=VALUE, the columns are {', '.join(rows)}"
    if kept.empty:
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
    if table.suffix != ".csv":
        raise ArtifactError(f"{table} is not a CSV file; every table has one beside its {table.suffix or 'other'} form")
    rows = pd.read_csv(require(table), dtype=str, keep_default_na=False)
    rows.index += 1
    if rows.empty:
        raise ArtifactError(f"{table} has no rows")
    if column is not None and column not in rows:
        if not (rows == column).any(axis=None):
            raise ConfigError(f"--column {column}: {table} has no such column; its columns are {', '.join(rows)}")
        selectors, column = [*selectors, column], None
    for selector in selectors:
        rows = _narrow(rows, selector, table)
    if len(rows) > 1:
        differing = [name for name in rows if rows[name].nunique() > 1]
        # Results differ, too, but nobody chooses by them.
        texts = [name for name in differing if pd.to_numeric(rows[name].replace("", "0"), errors="coerce").isna().any()]
        choices = "; ".join(f"{name}: {_choices(rows[name])}" for name in texts or differing)
        raise ConfigError(
            f"{len(rows)} rows of {table} fit (numbers {_choices(rows.index)}); choose one with --row NUMBER or "
            f"--row COLUMN=VALUE. They differ in {choices}"
        )
    column = column or next((name for name in DEFAULT_COLUMNS if name in rows), None)
    if column is None:
        raise ConfigError(f"--column: {table} has the columns {', '.join(rows)}; name one")
    return TableCell(table, int(rows.index[0]), column, rows.iloc[0].to_dict())


def project_root(path: Path) -> Path:
    """The directory of the DAG that a file belongs to: the next one upwards with a ``dvc.yaml``, or this one."""
    # The file itself may be a link into DVC's cache.
    directory = path.parent.resolve()
    return next((place for place in (directory, *directory.parents) if (place / "dvc.yaml").exists()), Path("."))


def check_value(cell: TableCell, root: Path) -> tuple[str, str]:
    """Status and explanation of the comparison of a metric's cell with the evaluation's ``metrics.json``."""
    # A table that is of no family has no such column.
    labels = {"family": "", **cell.row}
    named = all(name in labels for name in LABELS)
    if not named or cell.column not in NUMBERS or len(cell.evaluations) > 1:
        return "not compared", "the cell is computed from the evaluation's tables, or from several evaluations"
    path = Path(cell.evaluations[0]).with_name("metrics.json")
    if not (root / path).exists():
        return MISSING, f"{path} is not on this disk"
    rows = read_json(root / path)["metrics"]
    row = next((row for row in rows if all(row[name] == labels[name] for name in LABELS)), None)
    if row is None:
        return "not compared", f"{path} has no metric of this name and split"
    expected, shown = (float(math.nan if value in (None, "") else value) for value in (row[cell.column], cell.text))
    if shown == expected or (math.isnan(shown) and math.isnan(expected)):
        return OK, f"as in {path}"
    return MISMATCH, f"{path} has {expected!r}"


@dataclass(frozen=True)
class Origin:
    """All about a cell: whether its value is the evaluation's, the evaluations behind it, and all that is upstream."""

    cell: TableCell
    comparison: tuple[str, str]
    evaluations: list[Artifact]
    artifacts: dict[str, Artifact]
    """By path, seen from the table's own DAG."""

    @property
    def mismatches(self) -> list[str]:
        """All values and hashes that differ, in words."""
        status, text = self.comparison
        problems = [problem for artifact in self.artifacts.values() for problem in artifact.problems]
        return [*([f"the table's cell: {text}"] if status == MISMATCH else []), *problems]


def trace_cell(table: Path, row: Sequence[str], column: str | None) -> Origin:
    """Where a cell comes from. Raises ConfigError for an unclear choice and ArtifactError for a broken record."""
    cell = select_cell(table, row, column)
    root = project_root(table)
    lineages: dict[Path, Lineage] = {}
    evaluations = []
    for path in cell.evaluations:
        # What a sweep's cell computed was read and written in the cell's own directory. Where the file is gone, so is
        # the cell, and the path is all there is.
        place, above = (root / path).parent.resolve(), root.resolve()
        home = project_root(place / "provenance.json") if (root / path).exists() else above
        inside = place.relative_to(home) if place.is_relative_to(home) else Path(path).parent
        lineage = lineages.setdefault(
            home, Lineage(home, home.relative_to(above) if home.is_relative_to(above) else home)
        )
        evaluations.append(lineage.trace(str(inside)))
    artifacts = {artifact.path: artifact for lineage in lineages.values() for artifact in lineage.artifacts.values()}
    return Origin(cell, check_value(cell, root), evaluations, artifacts)


def _text(origin: Origin) -> Iterator[str]:
    cell, row = origin.cell, origin.cell.row
    yield f"{cell.table}, row {cell.number}, column {cell.column}: {cell.text or '(empty)'}"
    apart = (*NUMBERS, "undefined", "provenance")
    yield "  " + ", ".join(f"{name} {text}" for name, text in row.items() if text and name not in apart)
    if row.get("n"):
        interval = f", 95% interval [{row['ci_low']}, {row['ci_high']}]" if row.get("ci_low") else ""
        floor = f", perfect sampler {row['floor']}" if row.get("floor") else ""
        yield f"  n = {row['n']}{interval}{floor}"
    status, text = origin.comparison
    yield f"  value: {status}, {text}"
    for source in metric_sources(row.get("metric", "")):
        yield f"  metric: {source['file']} {source['name']}{': ' if source['says'] else ''}{source['says']}"
    shown: set[str] = set()
    for evaluation in origin.evaluations:
        yield ""
        yield from artifact_lines(evaluation, shown)
    missing = [path for path, artifact in origin.artifacts.items() if artifact.status == MISSING]
    if missing:
        yield ""
        yield f"MISSING on this disk (`dvc pull` fetches what a remote has): {', '.join(missing)}"


def _json(origin: Origin) -> dict[str, Any]:
    cell, (status, text) = origin.cell, origin.comparison
    return {
        "table": str(cell.table),
        "row_number": cell.number,
        "column": cell.column,
        "row": cell.row,
        "comparison": {"status": status, "text": text},
        "metric_sources": metric_sources(cell.row.get("metric", "")),
        "evaluations": [evaluation.path for evaluation in origin.evaluations],
        "artifacts": {path: artifact.as_json() for path, artifact in origin.artifacts.items()},
        "mismatches": origin.mismatches,
    }


def main(table: Path | None, row: list[str], column: str | None, as_json: bool) -> None:
    """Print a cell's origin. Raises ArtifactError where a hash or value differs."""
    if table is None:
        raise ConfigError(
            "name the number: a CSV table, what tells its row from others and, where that leaves a choice, a column, "
            'as in `make provenance TABLE=reports/tables/table6.csv ROW="embedded wasserstein_1_normalised soft"`'
        )
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
    parser.add_argument(
        "table", type=Path, nargs="?", help="CSV table, e.g. reports/tables/table6.csv or reports/metrics.csv"
    )
    parser.add_argument(
        "--row",
        nargs="*",
        default=[],
        metavar="SELECTOR",
        help="row number, COLUMN=VALUE, or a text that the row holds; several narrow it down",
    )
    parser.add_argument("--column", help="column, or a condition as in the printed table (default: the value)")
    parser.add_argument("--json", action="store_true", dest="as_json", help="everything, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
