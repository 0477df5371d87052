"""A cell: overrides, what they compose to, the stages to reach, and the identity that follows from both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import sha256_file, sha256_json
from pipeline.compose import compose_params
from pipeline.config.params import Params, validate
from pipeline.config.view import look_up
from pipeline.dag.code_digest import CHECK, code_digests
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES, STAGES
from pipeline.dag.tables import why_off
from pipeline.errors import ConfigError

LARGE_FILE_BYTES = 1 << 26
"""Files above this size are told apart by size and time: weights of tens of gigabytes are not read to skip a cell."""


@dataclass(frozen=True)
class Cell:
    """One combination of settings: what its overrides compose to, and the names of the stages to reach."""

    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    params: Params
    graph: StageGraph
    targets: tuple[str, ...]

    @cached_property
    def stages(self) -> list[str]:
        """The targets and all that they wait for, in an order in which they can run."""
        return self.graph.closure(self.targets)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Values of the keys that the targets, or their parts, and all that these wait for depend on."""
        wanted = [(stage.name, row) for target in self.targets for stage, row in self.graph[target].pieces]
        pieces = StageGraph(self.params, PIECES)
        names = pieces.closure([name for name, node in pieces.items() if (node.stage.name, node.row) in wanted])
        keys = sorted({key for name in names for key in pieces[name].parameters})
        return {key: look_up(self.values, key) for key in keys}

    @cached_property
    def sources(self) -> list[str]:
        """Dependencies that no stage makes: data and checkpoints."""
        found = {source for name in self.stages for source in self.graph.sources(name)} - {*STAGES[CHECK].sources}
        return sorted(source for source in found if Path(source).parts[0] != "conf")

    @property
    def identity(self) -> str:
        """Name of the cell's directory: the hash of targets and parameters."""
        return sha256_json({"targets": sorted(self.targets), "parameters": self.parameters})[:16]

    def full_identity(self, project: Path) -> str:
        """Hash of targets, parameters, commands, code and contents of ``sources``: equal means finished."""
        digests, names = code_digests(), {self.graph[name].stage.name for name in self.stages} - {CHECK}
        return sha256_json(
            {
                "targets": sorted(self.targets),
                "parameters": self.parameters,
                "commands": {name: self.graph[name].command for name in self.stages},
                "code": {name: digests[name] for name in sorted(names)},
                "sources": {source: _content(project / source) for source in self.sources},
            }
        )


def _content(path: Path) -> Any:
    """What tells one state of a file or directory from another; None where there is none."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file() and "__pycache__" not in item.parts)
        return {str(item.relative_to(path)): _content(item) for item in files}
    if not path.exists():
        return None
    status = path.stat()
    return [status.st_size, status.st_mtime_ns] if status.st_size > LARGE_FILE_BYTES else sha256_file(path)


def expand_targets(patterns: Sequence[str], params: Params) -> list[str]:
    """Replace {model} and {tokenizer} by all that the parameters have. Raises ConfigError."""
    try:
        targets = [
            pattern.format(model=name, tokenizer=model.tokenizer)
            for pattern in patterns
            for name, model in params.models.items()
        ]
    except (KeyError, IndexError, ValueError):
        raise ConfigError(f"sweep.targets: {patterns}: only {{model}}, {{tokenizer}} can stand in braces") from None
    return list(dict.fromkeys(targets))


def make_cell(overrides: Sequence[str], patterns: Sequence[str], project: Path) -> Cell:
    """Compose and validate a cell, without targets on axes that are off. Raises ConfigError, also if none is left."""
    values = compose_params(project / "conf", list(overrides))
    for key in ("artifacts", "reports"):
        if Path(values[key]).is_absolute() or ".." in Path(values[key]).parts:
            raise ConfigError(f"{key}: got {values[key]!r}; in a sweep it must be a path inside the cell's directory")
    params = validate(values)
    graph = StageGraph(params)
    wanted = graph.select(expand_targets(patterns, params))
    targets = tuple(name for name in wanted if not why_off(graph[name].stage, params))
    if not targets:
        raise ConfigError(
            f"sweep.targets: nothing is left to reach of {', '.join(patterns)}: axes (now {', '.join(params.axes)}) "
            "leaves out the rest"
        )
    return Cell(tuple(overrides), values, params, graph, targets)
