"""Follow a table's cell back to evaluation, samples, adapter, prompts, parameters, seeds, commits and machines.

Every hash on the way is compared with the files that are there. Exit status 1 if one differs.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json
from pipeline.errors import ArtifactError
from pipeline.metrics.registry import metric_sources
from pipeline.record.lineage import MISMATCH, MISSING, OK, Artifact, Lineage
from pipeline.record.lineage_text import artifact_json, artifact_lines, cell_lines
from pipeline.record.table_cell import TableCell, select_cell

LABELS = ("axis", "model", "condition", "split", "family", "metric")


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


def trace_cell(table: Path, row: list[str], column: str | None) -> Origin:
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


def _text(origin: Origin) -> Iterator[str]:
    yield from cell_lines(origin.cell, origin.comparison, origin.sources)
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
        "artifacts": {path: artifact_json(item) for path, item in origin.artifacts.items()},
        "mismatches": origin.mismatches,
    }


def main(table: Path, row: list[str], column: str | None, as_json: bool) -> None:
    """Print a cell's origin. Raises ArtifactError where a hash or value differs."""
    origin = trace_cell(table, row, column)
    print(json.dumps(_json(origin), indent=2) if as_json else "\n".join(_text(origin)))
    if origin.mismatches:
        raise ArtifactError(f"MISMATCH: {'; '.join(origin.mismatches)}")


def parse_arguments() -> argparse.Namespace:
    """Command line of ``python -m pipeline.record.provenance``."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.record.provenance",
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
