"""Where an artifact came from: parameters, inputs, code, machine and time.

``python -m pipeline.record.provenance TABLE.csv --row ... --column ...`` follows a table's cell back to all of them.
"""

import contextlib
import importlib.metadata
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import sha256_file, sha256_json, write_json

PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "tokenizers",
    "datasets",
    "lm_eval",
    "numpy",
    "scipy",
    "pandas",
)
OPTIONAL_PACKAGES = ("vllm", "openai")


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def sha256_path(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a directory's files."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file())
        return sha256_json({str(item.relative_to(path)): sha256_file(item) for item in files})
    return sha256_file(path)


# The checkout that the code comes from; a sweep's cell only links to it.
PROJECT = Path(__file__).resolve().parents[2]


def git_revision() -> dict[str, Any] | None:
    """Commit of the code that runs and whether tracked files differ from it; None outside Git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(PROJECT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        # DVC rewrites its lock file while the stages run.
        changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!dvc.lock")
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "modified": bool(changes)}


def _device() -> str:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU {platform.machine()}, {torch.get_num_threads()} threads" if torch is not None else "CPU"


def package_versions() -> dict[str, str]:
    """Versions of the packages that results depend on."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    for name in OPTIONAL_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


class StageRecord:
    """What one run of a stage depends on; opened before the work, written after it.

    Args:
        stage: Name of the stage.
        parameters: The sections of params.yaml that the stage uses.
        inputs: Files and directories that it reads.
    """

    def __init__(self, stage: str, parameters: Mapping[str, Any], inputs: Sequence[Path]):
        self.stage = stage
        self.parameters = {name: _plain(value) for name, value in parameters.items()}
        self.inputs = {str(path): sha256_path(path) for path in inputs}
        # Of the code that was loaded: a commit made while the stage runs is not in it.
        self.git = git_revision()
        self.started = datetime.now(UTC)
        self._clock = time.monotonic()

    @property
    def identity(self) -> str:
        """Hash of stage, parameters and input contents: equal runs are interchangeable."""
        return sha256_json([self.stage, self.parameters, sorted(self.inputs.values())])

    def origin(self) -> dict[str, Any]:
        """All but the parameters that is known before the work: hashes, commit, packages, device and start."""
        return {
            "identity": self.identity,
            "parameters_sha256": sha256_json(self.parameters),
            "inputs_sha256": self.inputs,
            "git": self.git,
            "python": platform.python_version(),
            "packages": package_versions(),
            "device": _device(),
            "started": self.started.isoformat(timespec="seconds"),
        }

    def write(self, path: Path, **results: Any) -> None:
        """Write ``provenance.json``."""
        wall_time = round(time.monotonic() - self._clock, 3)
        write_json(
            path,
            {
                "stage": self.stage,
                "parameters": self.parameters,
                **self.origin(),
                "wall_time_seconds": wall_time,
                **results,
            },
        )


if __name__ == "__main__":
    from pipeline.command import run_stage
    from pipeline.record.trace import main, parse_arguments

    run_stage(main, parse_arguments())
