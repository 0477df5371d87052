"""The DAG of dvc.yaml as data: stages with their templates resolved, and who waits for whom.

Sweeps, plans and parallel runs need names, parameters and edges without starting DVC, which takes
seconds. Only what this project's dvc.yaml uses is understood: ``foreach`` over a list or a table, and
``${...}`` with keys of params.yaml, ``item`` and ``key``. A test holds the result equal to DVC's own.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from pipeline.errors import ConfigError

REFERENCE = re.compile(r"\$\{\s*([\w.\-]+)\s*\}")


@dataclass(frozen=True)
class StageNode:
    """One stage of the DAG.

    Attributes:
        name: As DVC addresses it, e.g. "train_soft@qwen3_14b".
        command: Command line.
        dependencies: Files and directories that it reads.
        outputs: Files and directories that it writes.
        parameters: Dotted keys of params.yaml that it depends on.
    """

    name: str
    command: str
    dependencies: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The stage's name in dvc.yaml, without the item of a ``foreach``."""
        return self.name.partition("@")[0]

    @property
    def item(self) -> str:
        """The item of a ``foreach``; empty for a single stage."""
        return self.name.partition("@")[2]


def lookup(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key. Raises ConfigError."""
    found: Any = values
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise ConfigError(f"params.yaml has no key {key!r}, which dvc.yaml refers to")
        found = found[part]
    return found


def _resolve(value: Any, context: Mapping[str, Any]) -> Any:
    """Replace ``${...}``; a value that is nothing but one reference keeps its type."""
    if isinstance(value, str):
        # A reference may hold another: `dag.open_baselines.${key}` is a key, not a reference.
        if whole := REFERENCE.fullmatch(value):
            return lookup(context, whole[1])
        return REFERENCE.sub(lambda match: str(lookup(context, match[1])), value)
    if isinstance(value, list):
        return [_resolve(item, context) for item in value]
    if isinstance(value, dict):
        return {_resolve(key, context): _resolve(item, context) for key, item in value.items()}
    return value


def _paths(entries: Iterable[Any]) -> tuple[str, ...]:
    """Paths of a ``deps`` or ``outs`` list, whose entries may carry settings."""
    return tuple(str(PurePosixPath(next(iter(entry)) if isinstance(entry, dict) else entry)) for entry in entries)


def _node(name: str, definition: Mapping[str, Any], context: Mapping[str, Any]) -> StageNode:
    keys = ("cmd", "deps", "outs", "metrics", "params")
    resolved = {key: _resolve(definition.get(key, []), context) for key in keys}
    if not all(isinstance(key, str) for key in resolved["params"]):
        raise ConfigError(f"dvc.yaml: stage {name}: params must be keys of params.yaml")
    return StageNode(
        name,
        resolved["cmd"],
        _paths(resolved["deps"]),
        # A metrics file is an output with a label.
        _paths([*resolved["outs"], *resolved["metrics"]]),
        tuple(resolved["params"]),
    )


def _nodes(stages: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[StageNode]:
    for name, definition in stages.items():
        if "foreach" not in definition:
            yield _node(name, definition, params)
            continue
        items = _resolve(definition["foreach"], params)
        if isinstance(items, dict):
            for key, item in items.items():
                yield _node(f"{name}@{key}", definition["do"], {**params, "item": item, "key": key})
        else:
            for item in items:
                yield _node(f"{name}@{item}", definition["do"], {**params, "item": item})


class StageGraph(Mapping[str, StageNode]):
    """Stages by name, in dvc.yaml's order, with their edges."""

    def __init__(self, definition: Mapping[str, Any], params: Mapping[str, Any]):
        """Resolve ``definition`` (dvc.yaml's content) with ``params`` (that of params.yaml). Raises ConfigError."""
        self._stages = {node.name: node for node in _nodes(definition["stages"], params)}
        self._absent = set(definition["stages"]) - {node.kind for node in self._stages.values()}
        makers: dict[PurePosixPath, set[str]] = {}
        for node in self._stages.values():
            for output in node.outputs:
                path = PurePosixPath(output)
                # A dependency on a directory waits for whoever writes into it.
                for place in (path, *path.parents):
                    makers.setdefault(place, set()).add(node.name)
        whole = {PurePosixPath(output): node.name for node in self._stages.values() for output in node.outputs}
        self._upstream: dict[str, frozenset[str]] = {}
        self._sources: dict[str, tuple[str, ...]] = {}
        for node in self._stages.values():
            names, sources = set(), []
            for dependency in node.dependencies:
                path = PurePosixPath(dependency)
                found = makers.get(path, set()) | {whole[parent] for parent in path.parents if parent in whole}
                names |= found
                if not found:
                    sources.append(dependency)
            self._upstream[node.name] = frozenset(names - {node.name})
            self._sources[node.name] = tuple(sources)

    def __getitem__(self, name: str) -> StageNode:
        return self._stages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)

    def upstream(self, name: str) -> frozenset[str]:
        """Stages that write what this one reads."""
        return self._upstream[name]

    def sources(self, name: str) -> tuple[str, ...]:
        """Dependencies that no stage writes: code, data and checkpoints."""
        return self._sources[name]

    def select(self, targets: Iterable[str]) -> list[str]:
        """Names that targets stand for: a stage, or all items of a ``foreach``. Raises ConfigError."""
        chosen: dict[str, None] = {}
        for target in targets:
            found = [target] if target in self else [name for name in self if self[name].kind == target]
            if target.partition("@")[0] in self._absent:
                raise ConfigError(
                    f"the stage {target!r} is left out under these parameters: its axis is switched off "
                    "(axes), or the baselines or bins that it is for"
                )
            if not found:
                near = sorted(name for name in self if self[name].kind == target.partition("@")[0])
                known = near or sorted({node.kind for node in self.values()})
                raise ConfigError(f"there is no stage {target!r}; there are {', '.join(known)}")
            chosen.update(dict.fromkeys(found))
        return list(chosen)

    def closure(self, names: Iterable[str]) -> list[str]:
        """The named stages and all they wait for, each behind what it waits for."""
        order: dict[str, None] = {}
        # A stage is entered once all behind it on the stack are: explicit, as chains may be long.
        stack = [(name, False) for name in reversed(list(names))]
        while stack:
            name, ready = stack.pop()
            if ready:
                order[name] = None
            elif name not in order:
                stack.append((name, True))
                stack.extend((other, False) for other in sorted(self._upstream[name], reverse=True))
        return list(order)

    def downstream(self, names: Iterable[str]) -> set[str]:
        """The named stages and all that wait for any of them."""
        found = set(names)
        for name in self.closure(self):
            if self._upstream[name] & found:
                found.add(name)
        return found


def read_definition(*files: Path) -> dict[str, Any]:
    """Content of a dvc.yaml, with the stages of further files added to its own. Raises ConfigError."""
    stages: dict[str, Any] = {}
    for file in files:
        try:
            found = yaml.safe_load(file.read_text())["stages"]
        except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
            raise ConfigError(f"{file} cannot be read as a dvc.yaml ({' '.join(str(error).split())})") from None
        if twice := sorted(set(found) & set(stages)):
            raise ConfigError(f"{file}: the stage {twice[0]} exists already")
        stages |= found
    return {"stages": stages}


def read_stage_graph(dvc_file: Path, params: Mapping[str, Any]) -> StageGraph:
    """The DAG of a dvc.yaml under the values of a params.yaml. Raises ConfigError."""
    return StageGraph(read_definition(dvc_file), params)


def stages_out_of_date(directory: Path) -> set[str]:
    """Names of the stages that DVC would run first: those whose own inputs, parameters or outputs have changed.

    What waits for them may turn out to be out of date, too; ``StageGraph.downstream`` names it.

    Raises:
        ConfigError: DVC cannot read the project.
    """
    # Another DVC process may be running a stage; its lock is held for seconds at a time.
    result = subprocess.run(
        [sys.executable, "-m", "dvc", "--wait-for-lock", "status", "--json"],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise ConfigError(f"dvc status failed in {directory}: {' '.join(result.stderr.split())[-500:]}")
    return {name for name, changes in json.loads(result.stdout.splitlines()[-1]).items() if changes}
