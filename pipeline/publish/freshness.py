"""Whether artifacts are what params.yaml, the code and their inputs would make now, by the records of their runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json, require
from pipeline.config.params import Params
from pipeline.dag.execution import StageRun
from pipeline.dag.graph import StageGraph, StageNode
from pipeline.errors import ArtifactError
from pipeline.record.provenance import sha256_path
from pipeline.runs.spent import record_path

REMEDY = "`make repro` brings it up to date"


def nodes_behind(params: Params, names: Sequence[str]) -> list[StageNode]:
    """The named runs and all whose outputs they read, directly or not, in the DAG's order.

    Runs that are only waited for (checks, which no result depends on) are not among them.
    """
    graph = StageGraph(params)
    makers = {Path(path): node.name for node in graph.values() for path in node.outputs}
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for path in StageRun(graph[name].stage, graph[name].row, params).inputs:
            waiting += [makers[place] for place in (path, *path.parents) if place in makers]
    return [graph[name] for name in graph if name in found]


def checked_records(params: Params, names: Sequence[str], source: str = "params.yaml") -> dict[str, dict[str, Any]]:
    """The records of runs, after a comparison of these and all behind them with what they would be now.

    Args:
        params: The parameters.
        names: Runs as DVC names them, e.g. "train_soft@embedded".
        source: File of the parameters, for errors.

    Returns:
        Content of each named run's record, by name.

    Raises:
        ArtifactError: A record, input or output is missing, or is of other parameters, code or content.
    """
    nodes = {node.name: node for node in nodes_behind(params, names)}
    for name in names:
        # What was asked for is named before what it waits for.
        require(record_path(nodes[name], params))
    records = {name: _checked_record(node, params, source) for name, node in nodes.items()}
    return {name: records[name] for name in names}


def _difference(key: str, then: Any, now: Any) -> tuple[str, Any, Any]:
    """The first key at or below ``key`` whose values differ, with both."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*then, *now)):
            if then.get(name) != now.get(name):
                return _difference(f"{key}.{name}", then.get(name), now.get(name))
    return key, then, now


def _checked_record(node: StageNode, params: Params, source: str) -> dict[str, Any]:
    path = record_path(node, params)
    record = read_json(path)
    run = StageRun(node.stage, node.row, params)
    now = run.record
    if record["parameters"] != now.parameters:
        key, then, wanted = _difference("", record["parameters"], now.parameters)
        raise ArtifactError(f"{path} is of {key[1:]} {then!r}, {source} has {wanted!r}; {REMEDY}")
    if record.get("code") != now.code:
        commit = (record.get("git") or {}).get("commit")
        there = f", or publish it from a checkout of its commit {commit[:12]}" if commit else ""
        raise ArtifactError(f"{path} is of other code of {node.stage.name} than is here; {REMEDY}{there}")
    for read in dict.fromkeys((*record["inputs_sha256"], *now.inputs)):
        if record["inputs_sha256"].get(read) != now.inputs.get(read):
            raise ArtifactError(f"{path}: its input {read} is another than the run has read; {REMEDY}")
    for written, expected in record.get("outputs_sha256", {}).items():
        if sha256_path(require(Path(written))) != expected:
            raise ArtifactError(f"{written} is not what its run has written, as {path} has it; {REMEDY}")
    return record
