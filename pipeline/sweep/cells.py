"""A cell: overrides, what they compose to, the stages to reach, and the identity that follows from both."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import sha256_file, sha256_json
from pipeline.compose import compose_params
from pipeline.config.evaluation import AXES
from pipeline.config.params import Params, validate
from pipeline.config.view import look_up
from pipeline.dag.code_digest import CHECK, code_digests
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES, STAGES
from pipeline.dag.tables import is_off
from pipeline.errors import ConfigError

LARGE_FILE_BYTES = 1 << 26
"""Files above this size are told apart by size and time: weights of tens of gigabytes are not read to skip a cell."""


@dataclass(frozen=True)
class Cell:
    """One combination of settings.

    Attributes:
        overrides: Overrides of ``conf/config.yaml``.
        values: What they compose to.
        targets: Names of the stages to reach.
        graph: The DAG under these values.
        identity: 16 hexadecimal digits, the name of the cell's directory: the hash of the targets and of the values of
            ``parameters`` as they would be with all axes. A cell that an axis is added to goes on where it is.
    """

    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    targets: tuple[str, ...]
    graph: StageGraph
    identity: str

    @cached_property
    def params(self) -> Params:
        """The validated parameters."""
        return validate(self.values)

    @cached_property
    def stages(self) -> list[str]:
        """The targets and all that they wait for, in an order in which they can run."""
        return self.graph.closure(self.targets)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Values of the keys that the targets depend on; tracking, hosts and the like are not among them."""
        return _parameters(StageGraph(self.params, PIECES), _pieces(self.graph, self.targets), self.values)

    @cached_property
    def sources(self) -> list[str]:
        """Dependencies that no stage makes: data and checkpoints.

        Settings and code are left out: what of them counts is among the parameters and digests.
        """
        found = {source for name in self.stages for source in self.graph.sources(name)}
        found -= set(STAGES[CHECK].sources)
        return sorted(source for source in found if Path(source).parts[0] != "conf")

    @property
    def code(self) -> dict[str, str]:
        """Digest of the code of each stage that it runs, with the engine of its parameters, by the stage's name."""
        digests, kind = code_digests(), self.params.engine.kind
        stages = {node.stage.name: node.stage for node in map(self.graph.__getitem__, self.stages)}
        return {
            name: digests[name][kind] if stage.runs_engine else digests[name]
            for name, stage in sorted(stages.items())
            if name != CHECK
        }

    def full_identity(self, project: Path) -> str:
        """Hash of targets, parameters, commands, code and contents of ``sources``: equal means finished."""
        contents = {source: _content(project / source) for source in self.sources}
        commands = {name: self.graph[name].command for name in self.stages}
        return sha256_json(
            {
                "targets": sorted(self.targets),
                "parameters": self.parameters,
                "commands": commands,
                "code": self.code,
                "sources": contents,
            }
        )


def _pieces(graph: StageGraph, names: Iterable[str]) -> list[tuple[str, Mapping[str, str]]]:
    """The named stages, or their parts, each by its name and row."""
    return [(stage.name, row) for name in names for stage, row in graph[name].pieces]


def _parameters(
    graph: StageGraph, targets: Sequence[tuple[str, Mapping[str, str]]], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Values of the keys that targets and all that they wait for depend on, in a graph of pieces."""
    wanted = [name for name, node in graph.items() if (node.stage.name, node.row) in targets]
    keys = {key for name in graph.closure(wanted) for key in graph[name].parameters}
    return {key: look_up(values, key) for key in sorted(keys)}


def _content(path: Path) -> Any:
    """What tells one state of a file or directory from another; None where there is none."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file() and "__pycache__" not in item.parts)
        return {str(item.relative_to(path)): _content(item) for item in files}
    if not path.exists():
        return None
    status = path.stat()
    if status.st_size > LARGE_FILE_BYTES:
        return [status.st_size, status.st_mtime_ns]
    return sha256_file(path)


def expand_targets(patterns: Sequence[str], params: Params) -> list[str]:
    """Replace {model} and {tokenizer} by all that the parameters have. Raises ConfigError."""
    choices: dict[str, Sequence[str]] = {
        "model": list(params.models),
        "tokenizer": list(dict.fromkeys(model.tokenizer for model in params.models.values())),
    }
    targets: dict[str, None] = {}
    for pattern in patterns:
        used = [name for name in choices if f"{{{name}}}" in pattern]
        for values in itertools.product(*(choices[name] for name in used)):
            try:
                targets[pattern.format(**dict(zip(used, values, strict=True)))] = None
            except (KeyError, IndexError, ValueError):
                known = ", ".join(f"{{{name}}}" for name in choices)
                raise ConfigError(f"sweep.targets: {pattern!r}: only {known} can stand in braces") from None
    return list(targets)


def make_cell(overrides: Sequence[str], patterns: Sequence[str], project: Path) -> Cell:
    """Compose and validate a cell. Targets on axes that are switched off are left out.

    Args:
        overrides: Overrides of ``conf/config.yaml``.
        patterns: Targets, with braces.
        project: The checkout, with ``conf``.

    Raises:
        ConfigError: A bad override, value or target, no target on an axis that is switched on, or paths that would
            leave the cell's directory.
    """
    values = compose_params(project / "conf", list(overrides))
    for key in ("artifacts", "reports"):
        if Path(values[key]).is_absolute() or ".." in Path(values[key]).parts:
            raise ConfigError(f"{key}: got {values[key]!r}; in a sweep it must be a path inside the cell's directory")
    params = validate(values)
    # Summaries take more answers to questions than experiments without them need have.
    all_axes = [axis for axis in AXES if axis != "selfreflect" or axis in params.axes]
    everything = {**values, "axes": all_axes}
    graph, whole = StageGraph(params), StageGraph(validate(everything))
    wanted = whole.select(expand_targets(patterns, params))
    targets = tuple(name for name in wanted if name in graph and not is_off(graph[name].stage, params))
    if not targets:
        raise ConfigError(
            f"sweep.targets: nothing is left to reach of {', '.join(patterns)}: axes (now {', '.join(params.axes)}) "
            "leaves out the rest"
        )
    pieces = StageGraph(validate(everything), PIECES)
    parameters = _parameters(pieces, _pieces(whole, wanted), everything)
    identity = sha256_json({"targets": sorted(wanted), "parameters": parameters})[:16]
    return Cell(tuple(overrides), values, targets, graph, identity)
