"""The DAG under given parameters, without starting DVC: every run of every stage, and which waits for which."""

import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import networkx

from pipeline.config.params import Params
from pipeline.dag.declaration import Row, Stage, fill
from pipeline.dag.stages import STAGES
from pipeline.dag.tables import dag_section, parts_of, rows_of, template_names
from pipeline.errors import ConfigError, did_you_mean
from pipeline.estimates.cost import Cost

if TYPE_CHECKING:
    from pipeline.estimates.prices import Prices


@dataclass(frozen=True)
class StageNode:
    """One run of a stage, with its templates filled in; ``name`` is as DVC addresses it: "train-soft@qwen3_14b"."""

    name: str
    stage: Stage
    row: Row
    command: str
    dependencies: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    parts: tuple[tuple[Stage, Row], ...]  # those whose axes are on, each with its row

    @property
    def model(self) -> str:
        """The model that the run is of; empty where several share it."""
        return self.row.get("model", "") if self.stage.over not in ("tries", "profiled") else ""

    @property
    def pieces(self) -> tuple[tuple[Stage, Row], ...]:
        """What the run does: itself, or its parts that are on."""
        return self.parts if self.stage.parts else ((self.stage, self.row),)

    def cost(self, prices: "Prices") -> Cost:
        return sum((stage.price(prices, row) for stage, row in self.pieces), Cost())


class StageGraph(Mapping[str, StageNode]):
    """Runs of ``stages`` (or ``PIECES``) by name, in the order of the declarations, with their edges."""

    def __init__(self, params: Params, stages: Mapping[str, Stage] = STAGES):
        tables, self._nodes = dag_section(params), {}
        for stage in stages.values():
            for key, row in rows_of(stage.over, params, tables).items():
                names = template_names(row, params, tables)
                outputs = (*stage.outputs, *([stage.metrics] if stage.metrics else []))
                filled = (tuple(fill(t, names) for t in each) for each in (stage.inputs, outputs, stage.parameters))
                name, parts = f"{stage.name}@{key}" if stage.over else stage.name, parts_of(stage, row, params, tables)
                self._nodes[name] = StageNode(name, stage, row, stage.command(names), *filled, parts)
        self._absent = set(stages) - {node.stage.name for node in self._nodes.values()}
        makers: dict[PurePosixPath, set[str]] = {}
        whole: dict[PurePosixPath, str] = {}
        for node in self._nodes.values():
            for path in map(PurePosixPath, node.outputs):
                whole[path] = node.name
                # A dependency on a directory waits for whoever writes into it.
                for place in (path, *path.parents):
                    makers.setdefault(place, set()).add(node.name)
        self._edges = networkx.DiGraph()
        self._edges.add_nodes_from(self._nodes)
        self._sources: dict[str, tuple[str, ...]] = {}
        for node in self._nodes.values():
            behind = {
                path: makers.get(path, set()) | {whole[parent] for parent in path.parents if parent in whole}
                for path in map(PurePosixPath, node.dependencies)
            }
            self._edges.add_edges_from((maker, node.name) for found in behind.values() for maker in found - {node.name})
            self._sources[node.name] = tuple(str(path) for path, found in behind.items() if not found)

    def __getitem__(self, name: str) -> StageNode:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def upstream(self, name: str) -> set[str]:
        """Runs that write what this one reads."""
        return set(self._edges.predecessors(name))

    def sources(self, name: str) -> tuple[str, ...]:
        """Dependencies that no stage makes: settings, data and checkpoints."""
        return self._sources[name]

    def select(self, targets: Iterable[str]) -> list[str]:
        """Names that targets stand for: a run, or all runs of a stage. Raises ConfigError."""
        chosen: dict[str, None] = {}
        for target in targets:
            stage = target.partition("@")[0]
            found = [target] if target in self else [name for name in self if self[name].stage.name == target]
            if stage in self._absent:
                raise ConfigError(
                    f"the stage {target!r} is left out under these parameters: its axis is switched off (axes), or "
                    "they have no bins or methods that it is for"
                )
            if not found:
                near = sorted(name for name in self if self[name].stage.name == stage)
                known = near or sorted({node.stage.name for node in self.values()})
                nearest = did_you_mean(target, known)
                raise ConfigError(f"there is no stage {target!r}; {nearest}there are {', '.join(known)}")
            chosen.update(dict.fromkeys(found))
        return list(chosen)

    def closure(self, names: Collection[str]) -> list[str]:
        """The named runs and all they wait for, each behind what it waits for."""
        wanted = {*names}.union(*(networkx.ancestors(self._edges, name) for name in names))
        order = {name: place for place, name in enumerate(self)}
        return list(networkx.lexicographical_topological_sort(self._edges.subgraph(wanted), order.__getitem__))

    def downstream(self, names: Collection[str]) -> set[str]:
        """The named runs and all that wait for any of them."""
        return {*names}.union(*(networkx.descendants(self._edges, name) for name in names))


def stages_out_of_date(directory: Path, names: Iterable[str] = ()) -> set[str]:
    """Those of all stages, or of ``names``, whose own inputs, parameters or outputs changed. Raises ConfigError."""
    # Another DVC process may be running a stage; its lock is held for seconds at a time.
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "status", "--json", *names]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if result.returncode != 0:
        raise ConfigError(f"dvc status failed in {directory}: {' '.join(result.stderr.split())[-500:]}")
    return {name for name, changes in json.loads(result.stdout.splitlines()[-1]).items() if changes}
