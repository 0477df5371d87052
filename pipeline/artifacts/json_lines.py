"""Files of JSON lines: NoveltyBench's interchange format, and prompt lists."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import require
from pipeline.errors import ArtifactError


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with atomic_path(path) as temporary:
        # ASCII, because a text may hold lone surrogates.
        temporary.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="ascii")


def read_json_lines(path: Path, fields: Sequence[str]) -> list[dict[str, Any]]:
    """Read JSON objects that must have ``fields``; blank lines are skipped. Raises ArtifactError naming the line."""
    try:
        text = require(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not UTF-8 text (byte {error.start})") from None
    rows = []
    # Not splitlines(), which also splits at line breaks that JSON strings may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ArtifactError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise ArtifactError(f"{path}: line {number} is not a JSON object")
        if missing := [field for field in fields if field not in row]:
            raise ArtifactError(f"{path}: line {number} has no field {missing[0]!r}; its fields are {list(row)}")
        rows.append(row)
    return rows
