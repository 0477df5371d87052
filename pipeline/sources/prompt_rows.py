"""Rows with prompts: JSON-lines files, one per split of a directory, or a data set of the hub."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.config.retention import is_local_path
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.repository import PUBLISHED_RESULTS, fetched, pinned_commit, reading

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Rows by split."""


def source_revision(key: str, source: str, revision: str | None) -> str | None:
    """Commit of a hub data set; None for what is local.

    Args:
        key: Of the source in params.yaml.
        source: A file or directory, or a data set of the hub.
        revision: Commit, branch or tag of the latter; None for the default branch.

    Raises:
        ArtifactError: A local file does not exist, or the hub cannot be reached or has no such revision.
    """
    if Path(source).exists():
        return None
    if is_local_path(source):
        raise ArtifactError(f"{key}: {source} does not exist")
    return pinned_commit(source, revision, "dataset")


def read_splits(source: str, revision: str | None, splits: Sequence[str], fields: Sequence[str]) -> Rows:
    """Rows by split of a directory with a file SPLIT.jsonl per split, or of a data set that ``datasets`` reads.

    Args:
        source: A directory of either kind, or a data set of the hub.
        revision: Commit of the latter.
        splits: The wanted splits; of a data set, the others are empty.
        fields: What every row of them must have.

    Raises:
        ArtifactError: The source cannot be read or lacks a field.
    """
    if Path(source).is_dir() and (files := sorted(Path(source).glob("*.jsonl"))):
        return {path.stem: read_json_lines(path, fields) for path in files}
    import datasets

    datasets.disable_progress_bars()
    directory = source
    if not Path(source).is_dir():
        directory = str(fetched(source, revision, "dataset", without=PUBLISHED_RESULTS))
    rows = {}
    # A cache of its own: the package's does not notice that the files of a directory have changed.
    with tempfile.TemporaryDirectory() as cache:
        with reading(source):
            for split in datasets.get_dataset_split_names(directory):
                wanted = split in splits
                rows[split] = datasets.load_dataset(directory, split=split, cache_dir=cache) if wanted else []
        for split in filter(rows.__contains__, splits):
            names = rows[split].column_names
            if missing := [field for field in fields if field not in names]:
                raise ArtifactError(f"{source}: split {split!r} has no field {missing[0]!r}; it has {', '.join(names)}")
            rows[split] = rows[split].to_list()
    return rows


def read_rows(key: str, source: str, revision: str | None, split: str | None, fields: Sequence[str]) -> Sequence[Row]:
    """Rows of a JSON-lines file, or of one split of what ``read_splits`` reads.

    Args:
        key: Of the source's section in params.yaml.
        source: The file, or as of ``read_splits``.
        revision: Commit of a data set of the hub.
        split: The split of a data set; None for a file.
        fields: What every row must have.

    Raises:
        ConfigError: A data set has no such split, or a file is given one.
        ArtifactError: The source cannot be read or lacks a field.
    """
    if Path(source).is_file():
        if split is not None:
            raise ConfigError(f"{key}.split: {source} is a file, which has no splits; got {split!r}, must be null")
        return read_json_lines(Path(source), fields)
    if split is None:
        raise ConfigError(f"{key}.split: must name a split of the data set {source}, got null")
    rows = read_splits(source, revision, [split], fields)
    if split not in rows:
        raise ConfigError(f"{key}.split: {source} has no split {split!r}; it has {', '.join(sorted(rows))}")
    return rows[split]


def row_text(row: Row, where: str) -> str:
    """A row's prompt. Raises ArtifactError where it is empty or no text."""
    if not isinstance(row["prompt"], str) or not row["prompt"].strip():
        raise ArtifactError(f"{where}: the field 'prompt' must be a text, got {row['prompt']!r}")
    return row["prompt"]


def row_id(row: Row, where: str) -> str:
    """A row's id, which names the files of unfinished generations. Raises ArtifactError where it cannot."""
    if not isinstance(row["id"], str) or not re.fullmatch(r"[\w.-]{1,200}", row["id"]):
        raise ArtifactError(f"{where}: the id must be letters, digits and -_. only, got {row['id']!r}")
    return row["id"]
