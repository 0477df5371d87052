"""Follow a table's cell back to evaluation, samples, adapter, prompts, parameters, seeds, commits and machines.

A run's record (``provenance.json`` in a directory, ``NAME.provenance.json`` beside an artifact) says what it read and
wrote, with SHA-256. Every hash on the way is compared with the files that are there; exit status 1 if one differs.
"""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.artifacts.storage import read_json, require, sha256_json
from pipeline.axes.registry import METRICS
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import BASE
from pipeline.errors import ArtifactError, ConfigError
from pipeline.record.provenance import RECORD, run_identity, sha256_path, split_sources

OK, MISMATCH, MISSING, UNKNOWN = "ok", "MISMATCH", "MISSING", "not recorded"
LABELS = ("axis", "model", "condition", "split", "family", "metric")
DEFAULT_COLUMNS = ("value", "difference", "gp_irt", "utility", "mean")
"""What a table is read for, where no column is named."""
NUMBERS = ("value", "n", "ci_low", "ci_high", "floor")
MAX_CHOICES = 12


@dataclass
class Artifact:
    """A file or directory and the record of the run that made it, which is empty for a source."""

    path: str
    status: str = UNKNOWN
    problems: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    record_path: str = ""
    inputs: list["Artifact"] = field(default_factory=list)
    """What the run read; of a directory that no run made as a whole, the files that were followed."""

    @property
    def stage(self) -> str:
        return self.record.get("stage", "")

    def problem(self, text: str) -> None:
        self.status = MISMATCH
        if text not in self.problems:
            self.problems.append(text)


class Lineage:
    """Artifacts by path relative to ``root``, the table's project, each traced once: of a condition, and base's."""

    def __init__(self, root: Path):
        self._root = root
        self.artifacts: dict[str, Artifact] = {}

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self._root)

    def trace(self, home: Path, path: str) -> Artifact:
        """The artifact with all that is upstream; paths in records are relative to ``home``. Raises ArtifactError."""
        shown, own = self._shown(home / path), Path(path)
        if shown in self.artifacts:
            return self.artifacts[shown]
        artifact = self.artifacts[shown] = Artifact(shown, UNKNOWN if (home / path).exists() else MISSING)
        beside = own.with_name(f"{own.name.partition('.')[0]}.{RECORD}")
        places = (beside, *(parent / RECORD for parent in (own, *own.parents) if parent != Path(".")))
        place = next((home / place for place in places if (home / place).is_file()), None)
        if place is None:
            return artifact
        record = artifact.record = read_json(place)
        artifact.record_path = self._shown(place)
        keys = ("stage", "code", "parameters", "found", "inputs_sha256")
        hashes = run_identity(*(record[key] for key in keys)), sha256_json(record["parameters"])
        if hashes != (record["identity"], record["parameters_sha256"]):
            artifact.problem(f"{artifact.record_path} contradicts itself: its hashes are not of its parameters")
        for written, expected in record["outputs_sha256"].items():
            if own.is_relative_to(written):
                self._compare(artifact, home / written, expected, artifact.record_path)
        for read, expected in record["inputs_sha256"].items():
            source = self.trace(home, read)
            artifact.inputs.append(source)
            self._compare(source, home / read, expected, artifact.record_path)
            if not source.record and not source.inputs:
                source.inputs += [self.trace(home, member) for member in self._members(home, read, own.name)]
        return artifact

    def _members(self, home: Path, directory: str, condition: str) -> Iterator[str]:
        """What runs have written into a directory for a condition and for base, by their records there."""
        for place in sorted((home / directory).rglob(f"*{RECORD}")):
            for written in read_json(place).get("outputs_sha256", {}):
                if Path(written).is_relative_to(directory):
                    # soft.parquet, soft/scores
                    first = (Path(written).relative_to(directory).parts or ("",))[0]
                    if first.partition(".")[0] in (condition, BASE):
                        yield written

    def _compare(self, artifact: Artifact, place: Path, expected: str, reader: str) -> None:
        """Compare content with a recorded hash; the worst of several comparisons stays."""
        if not place.exists():
            return
        if sha256_path(place) != expected:
            artifact.problem(f"{self._shown(place)} is not what {reader} has recorded (SHA-256 {expected[:12]})")
        elif artifact.status == UNKNOWN:
            artifact.status = OK


def artifact_lines(artifact: Artifact) -> Iterator[str]:
    """An artifact, what is wrong with it, and the run that made it."""
    yield f"\n{artifact.path}  [{artifact.status}]" + (f"  <- {artifact.stage}" if artifact.stage else "")
    yield from (f"    MISMATCH: {problem}" for problem in artifact.problems)
    if not (record := artifact.record):
        return
    git, names = record["git"] or {}, list(record)
    modified = " with local changes" if git.get("modified") else ""
    yield f"    run: {record['started']}, {record['wall_time_seconds']} s, on {record['device']}"
    yield f"    command: {record['command']}"
    yield f"    commit: {git.get('commit', 'not under Git')}{modified}; code {record['code']}; seed {record['seed']}"
    yield f"    read: {', '.join(source.path for source in artifact.inputs)}"
    parts = {
        "packages": {"python": record["python"], **record["packages"]},
        "parameters": record["parameters"],
        "found": record["found"],
        # Those of the particular stage are written last.
        "results": {key: record[key] for key in names[names.index("outputs_sha256") + 1 :]},
    }
    for title, values in parts.items():
        if values:
            yield f"    {title}: " + ", ".join(
                f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()
            )


class TableCell(NamedTuple):
    """One cell of a CSV table of the report; rows are counted from 1 without the header, and have texts by column."""

    table: Path
    number: int
    column: str
    row: dict[str, str]

    def evaluations(self) -> list[str]:
        """Records of the evaluations behind the cell. Raises ArtifactError where there is none."""
        if "provenance" not in self.row:
            raise ArtifactError(f"{self.table} has no column provenance; `make tables` writes it")
        records = split_sources(self.row["provenance"])
        if not records:
            reason = self.row.get("status", "") or "no provenance"
            raise ArtifactError(f"{self.table} row {self.number}: no evaluation stands behind this cell ({reason})")
        return records


def _differences(rows: pd.DataFrame) -> str:
    """The values that labels of rows have; results differ, too, but nobody chooses by them."""
    names = [name for name in (*LABELS, "status") if name in rows] or list(rows)
    values = {name: [str(value) or "(empty)" for value in rows[name].unique()] for name in names}
    return "; ".join(f"{name}: {', '.join(found[:MAX_CHOICES])}" for name, found in values.items() if len(found) > 1)


def select_cell(table: Path, selectors: Sequence[str], column: str | None) -> TableCell:
    """The one cell that row numbers, ``COLUMN=VALUE`` or texts of a row name. Raises ArtifactError and ConfigError."""
    if table.suffix != ".csv":
        raise ArtifactError(f"{table} is not a CSV file; every table has one beside its {table.suffix or 'other'} form")
    rows = pd.read_csv(require(table), dtype=str, keep_default_na=False)
    rows.index += 1
    columns = f"its columns are {', '.join(rows)}"
    if column is not None and column not in rows:
        raise ConfigError(f"--column {column}: {table} has no such column; {columns}")
    for selector in selectors:
        name, equals, value = selector.partition("=")
        if equals and name not in rows:
            raise ConfigError(f"--row {selector}: {table} has no column {name!r}; {columns}")
        named = rows[name] == value if equals else (rows == selector).any(axis=1)
        kept = rows[rows.index == int(selector)] if selector.isdigit() else rows[named]
        if kept.empty:
            raise ConfigError(f"--row {selector}: no such row in {table}; there are {_differences(rows)}; {columns}")
        rows = kept
    if len(rows) != 1:
        numbers = ", ".join(map(str, rows.index[:MAX_CHOICES]))
        raise ConfigError(
            f"{len(rows)} rows of {table} fit (numbers {numbers}); choose one with --row NUMBER or --row COLUMN=VALUE. "
            f"They differ in {_differences(rows)}"
        )
    column = column or next((name for name in DEFAULT_COLUMNS if name in rows), None)
    if column is None:
        raise ConfigError(f"--column: {table}: {columns}; name one")
    return TableCell(table, int(rows.index[0]), column, rows.iloc[0].to_dict())


def check_value(cell: TableCell, root: Path) -> tuple[str, str]:
    """Status and explanation of the comparison of a metric's cell with the evaluation's ``metrics.json``."""
    # A table that is of no family has no such column.
    labels, evaluations = {"family": "", **cell.row}, cell.evaluations()
    if not labels.keys() >= set(LABELS) or cell.column not in NUMBERS or len(evaluations) > 1:
        return "not compared", "the cell is computed from the evaluation's tables, or from several evaluations"
    path = Path(evaluations[0]).with_name("metrics.json")
    if not (root / path).exists():
        return MISSING, f"{path} is not on this disk"
    rows = read_json(root / path)["metrics"]
    row = next((row for row in rows if all(row[name] == labels[name] for name in LABELS)), None)
    if row is None:
        return "not compared", f"{path} has no metric of this name and split"
    values = row[cell.column], cell.row[cell.column]
    expected, shown = (math.nan if value in (None, "") else float(value) for value in values)
    if shown == expected or (math.isnan(shown) and math.isnan(expected)):
        return OK, f"as in {path}"
    return MISMATCH, f"{path} has {expected!r}"


class Origin(NamedTuple):
    """All about a cell: the comparison of its value, the evaluations behind it, and by path all that is upstream."""

    cell: TableCell
    comparison: tuple[str, str]
    evaluations: list[Artifact]
    artifacts: dict[str, Artifact]

    @property
    def mismatches(self) -> list[str]:
        """All values and hashes that differ, in words."""
        status, text = self.comparison
        problems = [problem for artifact in self.artifacts.values() for problem in artifact.problems]
        return [*([f"the table's cell: {text}"] if status == MISMATCH else []), *problems]


def project_root(directory: Path) -> Path:
    """The DAG's directory that a directory belongs to: the next one upwards with a ``dvc.yaml``, or this one."""
    return next((place for place in (directory, *directory.parents) if (place / "dvc.yaml").exists()), Path.cwd())


def trace_cell(table: Path, row: Sequence[str], column: str | None) -> Origin:
    """Where a cell comes from. Raises ConfigError for an unclear choice and ArtifactError for a broken record."""
    cell, root = select_cell(table, row, column), project_root(table.parent.resolve())
    lineage, evaluations = Lineage(root), []
    for path in cell.evaluations():
        # Records of a sweep's cell have paths in the cell's own directory; where the file is gone, so is the cell.
        place = (root / path).parent.resolve()
        home = project_root(place) if (root / path).exists() else root
        inside = str(place.relative_to(home)) if place.is_relative_to(home) else str(place)
        evaluations.append(lineage.trace(home, inside))
    return Origin(cell, check_value(cell, root), evaluations, lineage.artifacts)


def _text(origin: Origin) -> Iterator[str]:
    cell, row = origin.cell, origin.cell.row
    yield f"{cell.table}, row {cell.number}, column {cell.column}: {row[cell.column] or '(empty)'}"
    apart = ("undefined", "provenance")
    yield "  " + ", ".join(f"{name} {text}" for name, text in row.items() if text and name not in apart)
    yield f"  value: {', '.join(origin.comparison)}"
    if row.get("metric") in METRICS:
        yield f"  metric: {METRICS[row['metric']].function}"
    for artifact in origin.artifacts.values():
        yield from artifact_lines(artifact)
    missing = [path for path, artifact in origin.artifacts.items() if artifact.status == MISSING]
    if missing:
        yield f"\nMISSING on this disk (`dvc pull` fetches what a remote has): {', '.join(missing)}"


def main(table: Path | None, row: list[str], column: str | None) -> None:
    """Print a cell's origin. Raises ArtifactError where a hash or value differs."""
    if table is None:
        raise ConfigError(
            "name the number: a CSV table, what tells its row from others and, where that leaves a choice, a column, "
            'as in `make provenance TABLE=reports/tables/table6.csv ROW="embedded wasserstein_1_normalised soft"`'
        )
    origin = trace_cell(table, row, column)
    print("\n".join(_text(origin)))
    if origin.mismatches:
        raise ArtifactError(f"MISMATCH: {'; '.join(origin.mismatches)}")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.runs.trace"))
