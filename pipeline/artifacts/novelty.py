"""Directories of NoveltyBench's own files: partitions and scores by split."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.errors import ArtifactError

PARTITION_FIELDS = ("id", "prompt", "model", "generations", "partition", "distinct")


def read_splits(directory: Path, name: str, fields: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Records of ``SPLIT/NAME`` by split. Raises ArtifactError if there is none."""
    files = sorted(directory.glob(f"*/{name}"))
    if not files:
        raise ArtifactError(f"{directory} has no split with {name}")
    return {path.parent.name: read_json_lines(path, fields) for path in files}


RATED_FIELDS = (*PARTITION_FIELDS, "generation_scores", "partition_scores", "utility")


CLASS_COLUMNS = ("prompt_id", "split", "class_index", "representative", "size", "reward", "rating")
