"""Artifacts that say why there is nothing: an axis that is off, or a model that could not be run."""

from pathlib import Path

from pipeline.artifacts.atomic import atomic_directory, atomic_path
from pipeline.artifacts.storage import UNAVAILABLE, read_json, table_metadata, write_json

UNAVAILABLE_FILE = "unavailable.json"
"""What a directory holds instead of its content."""


def write_unavailable(path: Path, reason: str) -> None:
    """Write an artifact that says why there is none: a table without columns, a record or a directory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        with atomic_path(path) as temporary:
            pq.write_table(pa.table({}).replace_schema_metadata({UNAVAILABLE: reason.encode()}), temporary)
    elif path.suffix == ".json":
        write_json(path, {"unavailable": reason})
    else:
        with atomic_directory(path) as directory:
            write_json(directory / UNAVAILABLE_FILE, {"unavailable": reason})


def why_unavailable(path: Path) -> str:
    """Why an artifact is not there, by what ``write_unavailable`` left in its place; empty where it is there."""
    if path.suffix == ".parquet":
        return table_metadata(path).get(UNAVAILABLE, b"").decode()
    place = path / UNAVAILABLE_FILE
    return read_json(place)["unavailable"] if place.exists() else ""
