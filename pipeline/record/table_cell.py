"""A cell of one of the report's CSV tables, chosen as a reader would name it."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.artifacts.storage import require
from pipeline.errors import ArtifactError, ConfigError

# What a table is read for, where no column is named.
DEFAULT_COLUMNS = ("value", "difference", "gp_irt", "utility", "mean")
MAX_CHOICES = 12
# Between the files in a column `provenance`.
SEPARATOR = "; "


@dataclass(frozen=True)
class TableCell:
    """One cell.

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
        """Provenance files of the evaluations behind the cell. Raises ArtifactError where there is none."""
        if "provenance" not in self.row:
            raise ArtifactError(f"{self.table} has no column provenance; `make tables` writes it")
        found = split_sources(self.row["provenance"])
        if not found:
            reason = self.row.get("status", "") or "no provenance"
            raise ArtifactError(f"{self.table} row {self.number}: no evaluation stands behind this cell ({reason})")
        return found


def join_sources(paths: Iterable[str | None]) -> str:
    """The text of a column ``provenance`` for several files; None and empty ones are left out."""
    return SEPARATOR.join(filter(None, paths))


def split_sources(text: str) -> list[str]:
    """The files that ``join_sources`` put into a text."""
    return [path for path in text.split(SEPARATOR) if path]


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
    if selector.isdigit():
        kept = [(number, row) for number, row in rows if number == int(selector)]
        choices = f"its rows are 1 to {rows[-1][0]}" if len(rows) > 1 else f"the row left is {rows[0][0]}"
    elif "=" in selector:
        column, value = selector.split("=", 1)
        if column not in columns:
            raise ConfigError(
                f"--row {selector}: {table} has no column {column!r}; its columns are {', '.join(columns)}"
            )
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
    if column is None:
        column = next((name for name in DEFAULT_COLUMNS if name in columns), None)
        if column is None:
            raise ConfigError(f"--column: {table} has the columns {', '.join(columns)}; name one")
    ((number, row),) = rows
    return TableCell(table, number, column, row)
