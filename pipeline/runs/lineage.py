"""From an artifact back to all that it was made from, by the records of the runs, with every hash compared.

A run's record (``provenance.json`` in a directory, ``NAME.provenance.json`` beside a file or directory) says what it
read and what it wrote, with SHA-256; resolved parameters, a digest of its code, commit, packages, device and time.

An evaluation reads directories with the files of all conditions of its model. The way back from one condition leads
through its own files there, and base's.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2

from pipeline.artifacts.storage import read_json, sha256_json
from pipeline.config.params import BASE
from pipeline.dag.code_digest import engines_besides, project_code
from pipeline.dag.stages import DECLARED
from pipeline.record.provenance import RECORD, run_identity, sha256_of_files, sha256_path

OK, MISMATCH, MISSING, CHANGED, UNKNOWN = "ok", "MISMATCH", "MISSING", "changed since", "not recorded"
WIDTH = 118


def sha256_in_commit(commit: str, path: Path) -> str | None:
    """The hash that a file or directory has in a commit; None without it, or outside Git.

    Links are followed in the working directory, and the path may be gone there.
    """
    place = path.resolve()
    found = pygit2.discover_repository(str(next(parent for parent in place.parents if parent.is_dir())))
    if found is None:
        return None
    repository = pygit2.Repository(found)
    try:
        name = place.relative_to(Path(repository.workdir).resolve()).as_posix()
        item = repository.revparse_single(commit).peel(pygit2.Commit).tree[name]
    except (KeyError, ValueError):
        return None
    if isinstance(item, pygit2.Blob):
        return sha256_of_files({"": item.data})
    return sha256_of_files(dict(_blobs(item)))


def _blobs(tree: pygit2.Tree, above: str = "") -> Iterator[tuple[str, bytes]]:
    for item in tree:
        name = f"{above}{item.name}"
        if isinstance(item, pygit2.Tree):
            yield from _blobs(item, f"{name}/")
        elif isinstance(item, pygit2.Blob):
            yield name, item.data


def code_now(record: Mapping[str, Any]) -> str | None:
    """The digest that the code of a record's stage has now; None for a stage that there is not."""
    # Records of earlier versions have underscores.
    stage = DECLARED.get(record["stage"].replace("_", "-"))
    kind = record["parameters"].get("engine.kind", "transformers")
    return None if stage is None else project_code().digest(stage.module_name, engines_besides(kind))


@dataclass
class Artifact:
    """A file or directory and where it came from.

    Attributes:
        path: Relative to the project.
        status: "ok": all recorded hashes are those of the content on disk. "MISMATCH": one is not. "MISSING": it is
            not on this disk. "changed since": a file under Git, whose content in the run's commit is the recorded one.
            "not recorded": no hash to compare with.
        problems: What differs from what, in words.
        changed_since: That commit.
        record: The record of the run that made it; None for a source.
        record_path: Its path.
        inputs: What the run read, by path; of a directory that no run made as a whole, the files that were followed.
    """

    path: str
    status: str = UNKNOWN
    problems: list[str] = field(default_factory=list)
    changed_since: str = ""
    record: dict[str, Any] | None = None
    record_path: str = ""
    inputs: dict[str, "Artifact"] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        """Name of the stage that made it; empty for a source."""
        return self.record["stage"] if self.record else ""

    @property
    def commit(self) -> str:
        """Commit of the code that made it; empty for a source, and outside Git."""
        return ((self.record or {}).get("git") or {}).get("commit", "")

    def problem(self, text: str) -> None:
        """Note what differs."""
        self.status = MISMATCH
        if text not in self.problems:
            self.problems.append(text)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "status": self.status,
            "problems": self.problems,
            "changed_since": self.changed_since or None,
            "stage": self.stage or None,
            "provenance_file": self.record_path or None,
            "provenance": self.record,
            "inputs": list(self.inputs),
        }


class Lineage:
    """Artifacts of a project by path, each traced once."""

    def __init__(self, root: Path, name: Path = Path()):
        """The project at ``root``, whose artifacts have paths below ``name``."""
        self.root, self.name = root, name
        self.artifacts: dict[str, Artifact] = {}

    def trace(self, path: str) -> Artifact:
        """The artifact and, through its inputs, all that is upstream. Raises ArtifactError for a broken record."""
        if path in self.artifacts:
            return self.artifacts[path]
        artifact = self.artifacts[path] = Artifact(str(self.name / path))
        if not (self.root / path).exists():
            artifact.status = MISSING
        place = self._record_path(path)
        if place is None:
            return artifact
        record = artifact.record = read_json(self.root / place)
        artifact.record_path = str(self.name / place)
        keys = ("stage", "code", "parameters", "found", "inputs_sha256")
        if (
            run_identity(*(record[key] for key in keys)) != record["identity"]
            or sha256_json(record["parameters"]) != record["parameters_sha256"]
        ):
            artifact.problem(f"{artifact.record_path} contradicts itself: its hashes are not of its parameters")
        for written, expected in record["outputs_sha256"].items():
            if Path(path).is_relative_to(written):
                self._compare(artifact, written, expected, artifact.record_path)
        for read, expected in record["inputs_sha256"].items():
            source = artifact.inputs[read] = self.trace(read)
            self._compare(source, read, expected, artifact.record_path, artifact.commit)
            if source.record is None:
                source.inputs |= {inside: self.trace(inside) for inside in self._members(read, Path(path).name)}
        return artifact

    def _members(self, directory: str, condition: str) -> Iterator[str]:
        """What runs have written into a directory for a condition and for base, by their records there."""
        for place in sorted((self.root / directory).rglob(f"*{RECORD}")):
            for written in read_json(place).get("outputs_sha256", {}):
                if Path(written).is_relative_to(directory):
                    # soft.parquet, soft/scores
                    first = (Path(written).relative_to(directory).parts or ("",))[0]
                    if first.partition(".")[0] in (condition, BASE):
                        yield written

    def _record_path(self, path: str) -> Path | None:
        """The record of an artifact, from the project's root."""
        own = Path(path)
        beside = own.with_name(f"{own.name.partition('.')[0]}.{RECORD}")
        within = (parent / RECORD for parent in (own, *own.parents) if parent != Path("."))
        return next((item for item in (beside, *within) if (self.root / item).is_file()), None)

    def _compare(self, artifact: Artifact, path: str, expected: str, reader: str, commit: str = "") -> None:
        """Compare a path's content with a recorded hash; the worst of several comparisons stays."""
        place, name = self.root / path, str(self.name / path)
        if place.exists() and sha256_path(place) == expected:
            artifact.status = OK if artifact.status == UNKNOWN else artifact.status
        elif commit and artifact.record is None and sha256_in_commit(commit, place) == expected:
            artifact.changed_since = commit
            artifact.status = artifact.status if artifact.status == MISMATCH else CHANGED
        elif place.exists() or artifact.path != name:
            artifact.problem(f"{name} is not what {reader} has recorded (SHA-256 {expected[:12]})")


def _pairs(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _pairs(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={value if isinstance(value, str) else json.dumps(value)}"


def artifact_lines(artifact: Artifact, shown: set[str], indent: str = "") -> Iterator[str]:
    """An artifact, the run that made it, and all that it read, as an indented tree.

    Runs and texts in ``shown`` have been printed and are not printed again; it is added to.
    """
    again = artifact.record_path in shown
    by = f"  <- {artifact.stage}{' (above)' if again else ''}" if artifact.stage else ""
    since = f" {artifact.changed_since[:12]}" if artifact.changed_since else ""
    yield f"{indent}{artifact.path}  [{artifact.status}{since}]{by}"
    body = indent + "    "
    lines = [f"MISMATCH: {problem}" for problem in artifact.problems]
    if artifact.record is not None and not again:
        shown.add(artifact.record_path)
        lines.extend(_run_lines(artifact.record, shown))
    wrap = textwrap.TextWrapper(
        max(WIDTH - len(body), 60),
        initial_indent=body,
        subsequent_indent=body + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        yield from wrap.wrap(line)
    for member in () if again else artifact.inputs.values():
        yield from artifact_lines(member, shown, body)


def _once(title: str, text: str, shown: set[str]) -> str:
    """A line that many runs have in common, whole the first time."""
    if text in shown:
        return f"{title}: as above"
    shown.add(text)
    return f"{title}: {text}"


def _run_lines(record: Mapping[str, Any], shown: set[str]) -> Iterator[str]:
    commit = record["git"] or {}
    state = " with local changes" if commit.get("modified") else ""
    now = code_now(record)
    code = "as now" if now == record["code"] else f"of another state; now it is {now or 'no stage any more'}"
    yield f"run: {record['started']}, {record['wall_time_seconds']} s, on {record['device']}"
    yield f"command: {record['command']}"
    yield f"commit: {commit.get('commit', 'not under Git')}{state}; identity {record['identity'][:16]}"
    yield f"code: {record['code']}, {code}"
    yield _once("packages", f"python={record['python']}, {', '.join(_pairs(record['packages']))}", shown)
    model = {key: value for key, value in record["parameters"].items() if key.startswith("models.")}
    own = {key: value for key, value in record["parameters"].items() if key not in model}
    yield f"parameters: {', '.join(_pairs(own)) or 'none'}"
    if model:
        yield _once("model", ", ".join(_pairs(model)), shown)
    # Those of the particular stage are written last.
    names = list(record)
    results = {key: record[key] for key in names[names.index("outputs_sha256") + 1 :]}
    for title, values in (("found", record["found"]), ("results", results)):
        if values:
            yield f"{title}: {', '.join(_pairs(values))}"
