"""Parameters of which a reader sees what it has declared, and nothing else."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from types import FunctionType, MethodType
from typing import Any


class UndeclaredParameterError(Exception):
    """A stage reads a parameter that its declaration does not name: a change of it would go unnoticed."""


class ParamsView:
    """A section of the parameters, of which ``reader`` may read the dotted keys ``keys``; so may its methods."""

    def __init__(self, value: Any, keys: Collection[str], reader: str, path: str = ""):
        self._value, self._keys, self._reader, self._path = value, tuple(keys), reader, path

    def _child(self, name: str, value: Any) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if any(path == key or path.startswith(f"{key}.") for key in self._keys):
            return value
        if any(key.startswith(f"{path}.") for key in self._keys) and (is_dataclass(value) or isinstance(value, dict)):
            return ParamsView(value, self._keys, self._reader, path)
        raise UndeclaredParameterError(
            f"{self._reader} reads the parameter {path}, which its declaration does not name "
            "(pipeline/dag/stages.py, or stages.py of the axis)"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        described = getattr(type(self._value), name, None)
        if isinstance(described, property):
            return described.fget(self)
        if isinstance(described, FunctionType):
            return MethodType(described, self)
        return self._child(name, getattr(self._value, name))

    def __getitem__(self, name: str) -> Any:
        return self._child(name, self._value[name])

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)


def look_up(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of nested mappings. Raises KeyError naming the key."""
    found: Any = values
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise KeyError(key)
        found = found[part]
    return found
