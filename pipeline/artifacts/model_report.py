"""What check_model found a checkpoint to be."""

from pathlib import Path

from pipeline.artifacts.storage import read_json, sha256_json


def model_revision(report: Path) -> str | None:
    """The hub commit that check_model recorded; None for a local checkpoint."""
    return read_json(report)["revision"]


def checkpoint_identity(report: Path) -> str:
    """Hash of what check_model found the checkpoint to be: its name, its commit, its files."""
    found = read_json(report)
    return sha256_json([found[key] for key in ("checkpoint", "revision", "files_sha256")])
