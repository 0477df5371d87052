"""Whether artifacts are what params.yaml, the code and their inputs would make now, by the records of their runs."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json, require
from pipeline.config.params import Params
from pipeline.dag.execution import StageRun
from pipeline.dag.graph import StageGraph, StageNode
from pipeline.dag.stages import PIECES
from pipeline.errors import ArtifactError
from pipeline.record.provenance import StageRecord, sha256_path
from pipeline.runs.spent import record_paths

REMEDY = "`make repro` brings it up to date"


def nodes_behind(params: Params, names: Sequence[str], conditions: Collection[str]) -> list[StageNode]:
    """The named runs and all whose outputs they read, directly or not, in the DAG's order.

    Left out are runs that are only waited for (checks, which no result depends on), and those of conditions that are
    not among ``conditions``: an evaluation reads the files of all.
    """
    graph = StageGraph(params, PIECES)
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        read = StageRun(graph[name].stage, graph[name].row, params).inputs
        behind = [node for node in map(graph.__getitem__, graph.upstream(name)) if _makes(node, read)]
        waiting += [node.name for node in behind if node.row.get("condition", "") in ("", *conditions)]
    return [graph[name] for name in graph if name in found]


def _makes(node: StageNode, read: Sequence[Path]) -> bool:
    """Whether a run writes something of what is read, or into it."""
    outputs = [Path(path) for path in node.outputs]
    return any(path.is_relative_to(output) or output.is_relative_to(path) for output in outputs for path in read)


def checked_records(
    params: Params, names: Sequence[str], conditions: Collection[str], source: str = "params.yaml"
) -> dict[Path, dict[str, Any]]:
    """The records of runs, after a comparison of these and all behind them with what they would be now.

    Args:
        params: The parameters.
        names: Runs as DVC names them, e.g. "train-soft@embedded".
        conditions: Conditions that count; of others nothing is compared.
        source: File of the parameters, for errors.

    Returns:
        Content of the named runs' records, by path.

    Raises:
        ArtifactError: A record, input or output is missing, or is of other parameters, code or content.
    """
    nodes = nodes_behind(params, names, conditions)
    paths = {
        node.name: [path for name, path in record_paths(node, params).items() if name in ("", *conditions)]
        for node in nodes
    }
    for name in names:
        # What was asked for is named before what it waits for.
        for path in paths[name]:
            require(path)
    records = {}
    for node in nodes:
        now = StageRun(node.stage, node.row, params).record
        for path in paths[node.name]:
            records[path] = read_json(path)
            _compare(path, records[path], now, source)
    return {path: records[path] for name in names for path in paths[name]}


def _difference(key: str, then: Any, now: Any) -> tuple[str, Any, Any]:
    """The first key at or below ``key`` whose values differ, with both."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*then, *now)):
            if then.get(name) != now.get(name):
                return _difference(f"{key}.{name}", then.get(name), now.get(name))
    return key, then, now


def _compare(path: Path, record: Mapping[str, Any], now: StageRecord, source: str) -> None:
    if record["parameters"] != now.parameters:
        key, then, wanted = _difference("", record["parameters"], now.parameters)
        raise ArtifactError(f"{path} is of {key[1:]} {then!r}, {source} has {wanted!r}; {REMEDY}")
    if record.get("code") != now.code:
        commit = (record.get("git") or {}).get("commit")
        there = f", or publish it from a checkout of its commit {commit[:12]}" if commit else ""
        raise ArtifactError(f"{path} is of other code of {now.stage} than is here; {REMEDY}{there}")
    for read in dict.fromkeys((*record["inputs_sha256"], *now.inputs)):
        if record["inputs_sha256"].get(read) != now.inputs.get(read):
            raise ArtifactError(f"{path}: its input {read} is another than the run has read; {REMEDY}")
    for written, expected in record.get("outputs_sha256", {}).items():
        if sha256_path(require(Path(written))) != expected:
            raise ArtifactError(f"{written} is not what its run has written, as {path} has it; {REMEDY}")
