"""What ``dvc.lock`` says of an artifact: which stage made it, by which command, from which files and parameters."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import ArtifactError


@dataclass(frozen=True)
class LockedStage:
    """One stage of ``dvc.lock``, as it last ran.

    Attributes:
        name: Name with its item, e.g. "eval_structured@embedded-soft".
        command: Its command line.
        deps: MD5 (DVC's, of a directory with suffix ".dir") by path of what it read, code included.
        outs: The same of what it wrote.
        params: Keys and values that it tracked in params.yaml.
    """

    name: str
    command: str
    deps: Mapping[str, str]
    outs: Mapping[str, str]
    params: Mapping[str, Any]


def _hashes(entries: list[dict]) -> dict[str, str]:
    return {entry["path"]: entry["md5"] for entry in entries if "md5" in entry}


class DvcLock:
    """The stages of a ``dvc.lock`` by what they wrote; empty where there is no such file."""

    def __init__(self, path: Path):
        """Read the file. Raises ArtifactError."""
        content: Any = {}
        if path.exists():
            try:
                # The C parser takes 30 ms for the demo's 69 stages, the Python one ten times as long.
                content = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            except yaml.YAMLError as error:
                raise ArtifactError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
        stages = (content or {}).get("stages", {})
        self.stages = {
            name: LockedStage(
                name,
                stage["cmd"],
                _hashes(stage.get("deps", [])),
                _hashes(stage.get("outs", [])),
                {key: value for file in stage.get("params", {}).values() for key, value in file.items()},
            )
            for name, stage in stages.items()
        }
        self._writers = {path: stage for stage in self.stages.values() for path in stage.outs}

    def writer(self, path: str) -> LockedStage | None:
        """The stage that wrote a file or directory, or a directory that holds it."""
        return next((self._writers[str(p)] for p in (Path(path), *Path(path).parents) if str(p) in self._writers), None)


def md5_of_files(files: Mapping[str, str]) -> str:
    """DVC's hash of a directory from the MD5 of each file by its path below the directory."""
    listing = [{"md5": md5, "relpath": name} for name, md5 in sorted(files.items())]
    return hashlib.md5(json.dumps(listing, sort_keys=True).encode()).hexdigest() + ".dir"


def md5_path(path: Path) -> str:
    """DVC's hash of a file or directory."""
    if path.is_dir():
        # DVC leaves out what .dvcignore names; compiled modules are what Python puts there itself.
        files = [item for item in path.rglob("*") if item.is_file() and "__pycache__" not in item.parts]
        return md5_of_files({item.relative_to(path).as_posix(): md5_path(item) for item in files})
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
