"""Parameters of conf/ under overrides, composed once for all tests of a process, and files of changed ones."""

import functools
import pickle
from pathlib import Path
from typing import Any

import yaml

from pipeline.compose import compose_params
from tests.conftest import ROOT


@functools.cache
def _composed(overrides: tuple[str, ...]) -> bytes:
    return pickle.dumps(compose_params(ROOT / "conf", list(overrides)))


def composed_params(*overrides: str) -> dict[str, Any]:
    """What ``compose_params`` returns and raises; each caller may change what it gets."""
    return pickle.loads(_composed(overrides))


def set_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Change a value in place; ``key`` is dotted, and its sections exist."""
    *sections, name = key.split(".")
    for section in sections:
        values = values[section]
    values[name] = value


def write_changed(source: Path, path: Path, **changes: Any) -> Path:
    """Write ``source``, a params.yaml, to ``path`` with other values, by keys that have "__" for a dot."""
    values = yaml.safe_load(source.read_text())
    for key, value in changes.items():
        set_value(values, key.replace("__", "."), value)
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path
