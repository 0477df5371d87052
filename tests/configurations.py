"""Hydra in tests: a file of a configuration is parsed once, and again where it has changed."""

import copy
import dataclasses
from pathlib import Path

from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource

_load = ConfigRepository.load_config
_loaded: dict[tuple, ConfigResult] = {}


def _load_once(self: ConfigRepository, config_path: str) -> ConfigResult | None:
    source = self._find_object_source(config_path, ObjectType.CONFIG)
    if source is None:
        return _load(self, config_path)
    file = Path(source.path, ConfigSource._normalize_file_name(config_path))
    found = file.stat() if file.exists() else None
    # What comes with Hydra is no file of ours, and does not change.
    key = (source.full_path(), config_path, found and (found.st_ino, found.st_mtime_ns, found.st_size))
    if key not in _loaded:
        _loaded[key] = _load(self, config_path)
    loaded = _loaded[key]
    # Composing changes both.
    own = {"config": copy.deepcopy(loaded.config), "defaults_list": copy.deepcopy(loaded.defaults_list)}
    return dataclasses.replace(loaded, **own)


def read_configurations_once() -> None:
    """Let Hydra in this process, and in those forked from it, parse each file once: a third of composing."""
    ConfigRepository.load_config = _load_once
