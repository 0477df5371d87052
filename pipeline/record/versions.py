"""Which artifacts were computed with other versions of the libraries than are installed."""

from collections import defaultdict
from pathlib import Path

from pipeline.artifacts.storage import read_json
from pipeline.record.provenance import RECORD, package_versions

COMPARED = ("torch", "transformers", "peft", "scipy", "numpy", "tokenizers")
"""Libraries that compute: another version may round, tokenize or sample otherwise."""
NAMED = 3
"""Artifacts that a message names."""


def version_notes(artifacts: Path) -> list[str]:
    """A sentence for each library of which artifacts below a directory were computed with another version."""
    installed, made_with = package_versions(), defaultdict(list)
    for path in sorted(artifacts.rglob(f"*{RECORD}")):
        packages = read_json(path)["packages"]
        for name in COMPARED:
            if name in packages and packages[name] != installed.get(name):
                made_with[name, packages[name]].append(path)
    notes = []
    for (name, version), paths in made_with.items():
        named = ", ".join(map(str, paths[:NAMED])) + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
        notes.append(
            f"{len(paths)} artifact(s) were computed with {name} {version}, installed is "
            f"{installed.get(name, 'none')}: {named}. DVC runs nothing again for that; `dvc repro --force STAGE` does"
        )
    return notes
