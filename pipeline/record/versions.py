"""Which artifacts were computed with other versions of the libraries than are installed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json
from pipeline.record.provenance import package_versions

COMPARED = ("torch", "transformers", "peft", "scipy", "numpy", "tokenizers")
"""Libraries that compute: another version may round, tokenize or sample otherwise."""
NAMED = 3
"""Artifacts that a message names."""


def records_below(directory: Path) -> dict[Path, dict[str, Any]]:
    """The record of every run whose artifacts are below a directory, by path. Raises ArtifactError."""
    return {path: read_json(path) for path in sorted(directory.rglob("*provenance.json"))}


def other_versions(
    records: Mapping[Path, Mapping[str, Any]], installed: Mapping[str, str], compared: Iterable[str] = COMPARED
) -> dict[tuple[str, str], list[Path]]:
    """Records by library and the version of it that they name, where that is not the installed one."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path, record in records.items():
        for name in compared:
            version = record["packages"].get(name)
            if version is not None and version != installed.get(name):
                found.setdefault((name, version), []).append(path)
    return found


def version_notes(artifacts: Path) -> list[str]:
    """A sentence for each library of which artifacts below a directory were computed with another version."""
    if not artifacts.is_dir():
        return []
    installed = package_versions()
    notes = []
    for (name, version), paths in other_versions(records_below(artifacts), installed).items():
        named = ", ".join(map(str, paths[:NAMED])) + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
        notes.append(
            f"{len(paths)} artifact(s) were computed with {name} {version}, installed is "
            f"{installed.get(name, 'none')}: {named}. DVC runs nothing again for that; `dvc repro --force STAGE` does"
        )
    return notes
