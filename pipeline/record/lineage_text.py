"""A cell's origin as text: the cell, then a tree of artifacts, each with the run that made it."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.artifacts.storage import sha256_json
from pipeline.record.lineage import CHANGED, OK, Artifact
from pipeline.record.table_cell import TableCell

WIDTH = 118
# What a record holds beside the results of the particular stage.
RECORD_KEYS = (
    "stage",
    "identity",
    "parameters",
    "parameters_sha256",
    "inputs_sha256",
    "git",
    "python",
    "packages",
    "device",
    "started",
    "wall_time_seconds",
)


def flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of nested mappings."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, values


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in flat(values))


def cell_lines(cell: TableCell, comparison: tuple[str, str], sources: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The cell, its labels, and whether the evaluation has the same value."""
    row = cell.row
    yield f"{cell.table}, row {cell.number}, column {cell.column}: {cell.text or '(empty)'}"
    numbers = ("value", "n", "ci_low", "ci_high", "floor", "undefined", "provenance")
    yield "  " + ", ".join(f"{name} {text}" for name, text in row.items() if text and name not in numbers)
    if row.get("n"):
        interval = f", 95% interval [{row['ci_low']}, {row['ci_high']}]" if row.get("ci_low") else ""
        floor = f", perfect sampler {row['floor']}" if row.get("floor") else ""
        yield f"  n = {row['n']}{interval}{floor}"
    status, text = comparison
    yield f"  value: {status}, {text}"
    for source in sources:
        yield f"  metric: {source['file']} {source['name']}{': ' if source['says'] else ''}{source['says']}"


def artifact_lines(artifact: Artifact, shown: set[str], indent: str = "") -> Iterator[str]:
    """An artifact, the run that made it, and all that it read.

    Args:
        artifact: The artifact.
        shown: What has been printed; it is not printed again. Is added to.
        indent: What the lines begin with.
    """
    # Artifacts of one run have all but their path in common.
    run = artifact.record_path or artifact.stage
    again = run in shown
    by = f"  <- {artifact.stage}{' (above)' if again else ''}" if artifact.stage else ""
    yield f"{indent}{artifact.path}  [{artifact.status}]{by}"
    body = indent + "    "
    lines = [f"MISMATCH: {problem}" for problem in artifact.problems]
    if not again:
        shown.add(run)
        lines.extend(_run_lines(artifact, shown))
    for line in lines:
        yield from textwrap.wrap(
            line,
            max(WIDTH - len(body), 60),
            initial_indent=body,
            subsequent_indent=body + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    for member in () if again else artifact.inputs.values():
        yield from artifact_lines(member, shown, body)


def _once(title: str, text: str, shown: set[str]) -> str:
    """A line that many runs have in common, whole the first time."""
    if text in shown:
        return f"{title}: as above"
    shown.add(text)
    return f"{title}: {text}"


def _run_lines(artifact: Artifact, shown: set[str]) -> Iterator[str]:
    record = artifact.record
    if record is not None:
        git = record["git"] or {}
        state = " with local changes" if git.get("modified") else ""
        yield f"run: {record['started']}, {record['wall_time_seconds']} s, on {record['device']}"
        yield f"commit: {git.get('commit', 'not under Git')}{state}; identity {record['identity'][:16]}"
        yield _once("packages", f"python={record['python']}, {_pairs(record['packages'])}", shown)
        results = {key: value for key, value in record.items() if key not in RECORD_KEYS}
        if results:
            yield f"results: {_pairs(results)}"
    if artifact.locked:
        yield f"command: {artifact.locked.command}"
    if artifact.stage:
        own = dict(artifact.parameters)
        settings = {key: own.pop(key) for key in list(own) if key.split(".")[0] in ("model", "models")}
        yield f"parameters ({sha256_json(artifact.parameters)[:16]}): {_pairs(own) or 'none'}"
        if settings:
            yield _once(
                "model",
                ", ".join(
                    _pairs({"": value} if isinstance(value, str) else value).lstrip("=") for value in settings.values()
                ),
                shown,
            )
        yield from _source_lines(artifact)


def _source_lines(artifact: Artifact) -> Iterator[str]:
    """Files that no stage makes: one line for those that are as recorded, one for each that is not."""
    same = [path for path, source in artifact.sources.items() if source.status == OK]
    if same:
        yield f"sources as recorded: {', '.join(same)}"
    for path, source in artifact.sources.items():
        if source.status == CHANGED:
            yield f"source changed since: {path} is as recorded in commit {source.changed_since[:12]}"
        elif source.status != OK:
            yield f"source {source.status}: {path}"


def artifact_json(artifact: Artifact) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "status": artifact.status,
        "problems": artifact.problems,
        "changed_since": artifact.changed_since or None,
        "stage": artifact.stage or None,
        "provenance_file": artifact.record_path or None,
        "provenance": artifact.record,
        "parameters": dict(artifact.parameters),
        "parameters_sha256": sha256_json(artifact.parameters) if artifact.stage else None,
        "command": artifact.locked.command if artifact.locked else None,
        "inputs": list(artifact.inputs),
        "sources": list(artifact.sources),
    }
