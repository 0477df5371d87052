"""Tables (Parquet with page checksums) and JSON on disk: written atomically, checked when read."""

import errno
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.artifacts.atomic import atomic_path
from pipeline.errors import ArtifactError, StorageError, UnavailableError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LABEL, UNAVAILABLE = b"identity", b"unavailable"
"""Keys of a Parquet file's metadata: what the table is known by, and why it has no rows."""


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of a JSON-serialisable value with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def require(path: Path) -> Path:
    """``path``; raises ArtifactError where there is nothing."""
    if not path.exists():
        raise ArtifactError(f"{path} does not exist; `dvc repro` builds it")
    return path


def write_if_changed(path: Path, text: str) -> None:
    """Write a text file unless it has that content: DVC would hash it again."""
    if not path.exists() or path.read_text() != text:
        with atomic_path(path) as temporary:
            temporary.write_text(text)


def write_json(path: Path, value: Any) -> None:
    """Write JSON; NaN is not allowed (an undefined number is null)."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON. Raises ArtifactError naming a missing or truncated file."""
    try:
        return json.loads(require(path).read_text())
    except ValueError as error:
        raise ArtifactError(f"{path} is not complete JSON ({error})") from None


def write_table(path: Path, table: "pd.DataFrame", label: str = "") -> None:
    """Write a Parquet table; ``label`` is what it is known by."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pa.Table.from_pandas(table, preserve_index=False)
    if label:
        content = content.replace_schema_metadata({**(content.schema.metadata or {}), LABEL: label.encode()})
    with atomic_path(path) as temporary:
        pq.write_table(content, temporary, write_page_checksum=True)


def table_metadata(path: Path, key: bytes) -> str:
    """What a Parquet file has under LABEL or UNAVAILABLE; empty where it has nothing, or is no table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return (pq.read_schema(path).metadata or {}).get(key, b"").decode()
    except (pa.ArrowException, OSError):
        return ""


def read_arrow(path: Path, columns: Sequence[str], only: bool = False) -> "pa.Table":
    """A table that must have ``columns``; with ``only``, the other columns are not read. Raises ArtifactError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(require(path), page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            if reason := (file.schema_arrow.metadata or {}).get(UNAVAILABLE):
                raise UnavailableError(f"{path} is empty: {reason.decode()}")
            missing = [column for column in columns if column not in names]
            if not missing:
                return file.read(list(columns) if only else None)
    except PermissionError as error:
        raise StorageError(errno.EACCES, str(path)) from error
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError(f"{path} is truncated or not a Parquet file ({str(error).splitlines()[0]})") from None
    raise ArtifactError(f"{path} has no column {missing[0]!r}; its columns are {names}")


def read_table(path: Path, columns: Sequence[str]) -> "pd.DataFrame":
    """A Parquet table, its pages and columns checked. Raises ArtifactError."""
    return read_arrow(path, columns).to_pandas()


def rows_by_prompt(path: Path, columns: Sequence[str], prompt_ids: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """Rows of a table by prompt, in the table's order. Raises ArtifactError for a prompt without any."""
    rows = dict(iter(read_table(path, columns).groupby("prompt_id")))
    for prompt_id in prompt_ids:
        if prompt_id not in rows:
            raise ArtifactError(f"{path} has no rows for the prompt {prompt_id}")
    return rows
