"""From an artifact back to all that it was made from, with every hash compared that can be.

Two records are joined. ``provenance.json`` (in a directory, or ``NAME.provenance.json`` beside a file) says what a
stage run read: resolved parameters, SHA-256 of the inputs, commit, packages, device and time. ``dvc.lock`` says for
every stage, those without a record too, the command, the MD5 of what it read, code included, and of what it wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import read_json, sha256_json
from pipeline.record.dvc_lock import DvcLock, LockedStage, md5_path
from pipeline.record.git_files import commit_with
from pipeline.record.provenance import sha256_path

OK, MISMATCH, MISSING, CHANGED, UNKNOWN = "ok", "MISMATCH", "MISSING", "changed since", "not recorded"


@dataclass
class Artifact:
    """A file or directory and where it came from.

    Attributes:
        path: Relative to the project.
        status: "ok": all recorded hashes are those of the content on disk. "MISMATCH": one is not. "MISSING": it is
            not on this disk. "changed since": a file under Git, whose content in a commit is the recorded one.
            "not recorded": no hash to compare with.
        problems: What differs from what, in words.
        changed_since: That commit.
        stage: Name of the stage that made it; empty for a source.
        record: Content of the provenance file; None where there is none.
        record_path: Its path.
        locked: The stage in ``dvc.lock``; None where there is none.
        inputs: What the stage read, by path.
        sources: The same for files that no stage makes: code, data, checkpoints.
    """

    path: str
    status: str = UNKNOWN
    problems: list[str] = field(default_factory=list)
    changed_since: str = ""
    stage: str = ""
    record: dict[str, Any] | None = None
    record_path: str = ""
    locked: LockedStage | None = None
    inputs: dict[str, "Artifact"] = field(default_factory=dict)
    sources: dict[str, "Artifact"] = field(default_factory=dict)

    @property
    def commit(self) -> str | None:
        """The commit that the stage ran at."""
        return ((self.record or {}).get("git") or {}).get("commit")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Resolved parameters: those of the record, else those that DVC tracked."""
        if self.record is not None:
            return self.record["parameters"]
        return self.locked.params if self.locked else {}


class Lineage:
    """Artifacts of a project by path, each traced once."""

    def __init__(self, root: Path):
        """Open the project at ``root``. Raises ArtifactError for a broken ``dvc.lock``."""
        self.root, self._lock = root, DvcLock(root / "dvc.lock")
        self.artifacts: dict[str, Artifact] = {}
        self._hashes: dict[tuple[str, str], str] = {}

    def _hash(self, path: str, algorithm: str) -> str:
        if (path, algorithm) not in self._hashes:
            compute = md5_path if algorithm == "md5" else sha256_path
            self._hashes[path, algorithm] = compute(self.root / path)
        return self._hashes[path, algorithm]

    def _compare(self, artifact: Artifact, algorithm: str, expected: str, reader: str, commit: str | None) -> None:
        """Compare the content with a recorded hash; the worst of several comparisons stays."""
        if (self.root / artifact.path).exists() and self._hash(artifact.path, algorithm) == expected:
            artifact.status = OK if artifact.status == UNKNOWN else artifact.status
            return
        found = None if artifact.stage else commit_with(self.root / artifact.path, algorithm, expected, commit)
        if found is not None:
            artifact.changed_since = found
            artifact.status = CHANGED if artifact.status in (UNKNOWN, OK) else artifact.status
        elif not (self.root / artifact.path).exists():
            artifact.status = MISSING if artifact.status != MISMATCH else MISMATCH
        else:
            artifact.status = MISMATCH
            problem = f"{artifact.path} is not what {reader} has recorded ({algorithm} {expected[:12]})"
            if problem not in artifact.problems:
                artifact.problems.append(problem)

    def _record_path(self, path: str) -> Path | None:
        """The provenance file of an artifact, from the project's root."""
        own = Path(path)
        beside = own.with_suffix(".provenance.json")
        within = (parent / "provenance.json" for parent in (own, *own.parents) if parent != Path("."))
        return next((item for item in (beside, *within) if (self.root / item).is_file()), None)

    def trace(self, path: str) -> Artifact:
        """The artifact and, through its inputs, all that is upstream. Raises ArtifactError for a broken record."""
        if path in self.artifacts:
            return self.artifacts[path]
        artifact = self.artifacts[path] = Artifact(path)
        artifact.locked, record_path = self._lock.writer(path), self._record_path(path)
        if record_path is not None:
            artifact.record, artifact.record_path = read_json(self.root / record_path), str(record_path)
            self._check_record(artifact)
        if artifact.locked:
            artifact.stage = artifact.locked.name
        elif artifact.record is not None:
            artifact.stage = artifact.record["stage"]
        if not artifact.stage:
            return artifact
        if artifact.locked and path in artifact.locked.outs:
            self._compare(artifact, "md5", artifact.locked.outs[path], "dvc.lock", None)
        self._follow(artifact)
        return artifact

    def _check_record(self, artifact: Artifact) -> None:
        record = artifact.record or {}
        computed = sha256_json([record["stage"], record["parameters"], sorted(record["inputs_sha256"].values())])
        if computed != record["identity"] or sha256_json(record["parameters"]) != record["parameters_sha256"]:
            artifact.status = MISMATCH
            artifact.problems.append(f"{artifact.record_path} contradicts itself: its hashes are not of its parameters")

    def _follow(self, artifact: Artifact) -> None:
        """Trace what the stage read: first what its record names, then what only ``dvc.lock`` does."""
        recorded = artifact.record["inputs_sha256"] if artifact.record else {}
        for path, expected in recorded.items():
            self._add_input(artifact, path, "sha256", expected, artifact.record_path)
        for path, expected in (artifact.locked.deps if artifact.locked else {}).items():
            if path not in recorded and not any(Path(known).is_relative_to(path) for known in recorded):
                self._add_input(artifact, path, "md5", expected, f"dvc.lock of {artifact.stage}")

    def _add_input(self, artifact: Artifact, path: str, algorithm: str, expected: str, reader: str) -> None:
        found = self.trace(path)
        (artifact.inputs if found.stage else artifact.sources)[path] = found
        self._compare(found, algorithm, expected, reader, artifact.commit)

    @property
    def mismatches(self) -> list[str]:
        """All differences found, in words."""
        return [problem for artifact in self.artifacts.values() for problem in artifact.problems]
