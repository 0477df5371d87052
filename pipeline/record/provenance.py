"""Where an artifact came from: parameters, inputs, code, machine, time, and what the run used up."""

import contextlib
import functools
import importlib.metadata
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline import PROJECT
from pipeline.artifacts.storage import sha256_file, sha256_json, write_json

PACKAGES = (
    *("torch", "transformers", "peft", "accelerate", "tokenizers", "datasets", "numpy", "scipy", "pandas"),
    *("vllm", "openai"),
)
RECORD = "provenance.json"
"""A record inside the directory that it is of; that of a file is beside it, as NAME.provenance.json. With their times
records are no part of a directory's content."""
SEPARATOR = "; "  # between the records in a column ``provenance``


def _plain(value: Any) -> Any:
    """A value as JSON has it: sections of the parameters as mappings."""
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def join_sources(paths: Iterable[str | None]) -> str:
    """The text of a column ``provenance`` for several records; None and empty ones are left out."""
    return SEPARATOR.join(filter(None, paths))


def split_sources(text: str) -> list[str]:
    """The records that ``join_sources`` put into a text."""
    return [path for path in text.split(SEPARATOR) if path]


def sha256_path(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a directory's files, records left out."""
    if path.is_dir():
        files = sorted(
            item for item in path.rglob("*") if item.is_file() and not f".{item.name}".endswith(f".{RECORD}")
        )
        return sha256_json({str(item.relative_to(path)): sha256_file(item) for item in files})
    return sha256_file(path)


@functools.cache
def git_revision() -> dict[str, Any] | None:
    """Commit of the code that runs and whether tracked files differ from it, asked once; None outside Git."""

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


@functools.cache
def package_versions() -> dict[str, str]:
    """Versions of the packages that results depend on, read once: that takes as long as a small stage."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _device() -> str:
    # A record must not import torch.
    torch = sys.modules.get("torch")
    if torch is None:
        return "CPU"
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU {platform.machine()}, {torch.get_num_threads()} threads"


def _tokens_read() -> int:
    # Loaded by what loads a model.
    counter = sys.modules.get("pipeline.engines.loading.model")
    return counter.tokens_read() if counter is not None else 0


class Usage:
    """What this process has used; ``continued``: the run found unfinished work, and cost more than is measured here."""

    def __init__(self) -> None:
        self.started, self.continued = datetime.now(UTC), False
        self._clock, self._tokens = time.monotonic(), _tokens_read()

    def measured(self) -> dict[str, Any]:
        """Fields of a record; tokens that models of this process ran forward, padding included, and memory in bytes."""
        peak, torch = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sys.modules.get("torch")
        gpu = torch is not None and torch.cuda.is_available()
        return {
            "wall_time_seconds": round(time.monotonic() - self._clock, 3),
            "tokens_read": _tokens_read() - self._tokens,
            # The kernel counts in KiB, and macOS in bytes.
            "peak_memory_bytes": peak if sys.platform == "darwin" else peak * 1024,
            "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated() if gpu else None,
            "continued": self.continued,
        }


class StageRecord:
    """What one run of a stage depends on; opened before the work, written after it.

    ``parameters`` are by dotted key of params.yaml, with what tells this run from the stage's others; ``inputs`` the
    files and directories that it reads, ``code`` the digest of what it runs; without ``usage`` the count starts now.
    """

    def __init__(
        self,
        stage: str,
        parameters: Mapping[str, Any],
        inputs: Sequence[Path],
        code: str,
        seed: int = 0,
        command: str = "",
        usage: Usage | None = None,
    ):
        self.stage, self.code, self.seed, self.command = stage, code, seed, command
        self.parameters = {name: _plain(value) for name, value in parameters.items()}
        self.inputs = {str(path): sha256_path(path) for path in inputs}
        self.found: dict[str, Any] = {}
        # Of the code that was loaded: a commit made while the stage runs is not in it.
        self.git, self.usage = git_revision(), usage or Usage()

    def add(self, **found: Any) -> None:
        """Note what the run depends on beside parameters and inputs, e.g. the commit that a branch of the hub is at."""
        self.found |= {name: _plain(value) for name, value in found.items()}

    @property
    def identity(self) -> str:
        """Hash of stage, code, parameters and input contents: equal runs are interchangeable."""
        return run_identity(self.stage, self.code, self.parameters, self.found, self.inputs)

    def origin(self) -> dict[str, Any]:
        """All but the parameters that is known before the work: hashes, commit, packages, device and start."""
        return {
            "identity": self.identity,
            "code": self.code,
            "parameters_sha256": sha256_json(self.parameters),
            "found": self.found,
            "inputs_sha256": self.inputs,
            "seed": self.seed,
            "git": self.git,
            "python": platform.python_version(),
            "packages": package_versions(),
            "device": _device(),
            "started": self.usage.started.isoformat(timespec="seconds"),
        }

    def write(self, path: Path, outputs: Mapping[str, str], **results: Any) -> None:
        """Write the record, with SHA-256 of what the run has made by path, and what is worth knowing about the work."""
        measured = {**self.usage.measured(), "outputs_sha256": dict(outputs)}
        first = {"stage": self.stage, "command": self.command, "parameters": self.parameters}
        write_json(path, {**first, **self.origin(), **measured, **results})


def run_identity(
    stage: str, code: str, parameters: Mapping[str, Any], found: Mapping[str, Any], inputs: Mapping[str, str]
) -> str:
    """Hash of what decides a run's result; arguments as a record has them."""
    return sha256_json([stage, code, parameters, found, sorted(inputs.values())])
