"""Artifacts that say why there is nothing: an axis that is off, or a model that could not be run."""

from pathlib import Path

from pipeline.artifacts.atomic import atomic_directory, atomic_path
from pipeline.artifacts.storage import UNAVAILABLE, read_json, table_metadata, write_json

UNAVAILABLE_FILE = "unavailable.json"
"""What a directory holds instead of its content."""


def write_unavailable(path: Path, reason: str) -> None:
    """Write a table without columns, a record or a directory that says why there is none."""
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
    """Why an artifact is not there, as ``write_unavailable`` said; empty where it is."""
    if path.suffix == ".parquet":
        return table_metadata(path, UNAVAILABLE)
    place = path / UNAVAILABLE_FILE
    return read_json(place)["unavailable"] if place.exists() else ""
