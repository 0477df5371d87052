"""Cells of a sweep as they are on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pipeline.artifacts.storage import read_json
from pipeline.config.seeds import SEEDS
from pipeline.errors import ArtifactError
from pipeline.report.evaluations import Evaluations, flatten, read_evaluations


@dataclass(frozen=True)
class Cell:
    """A finished cell of a sweep."""

    directory: Path
    overrides: tuple[str, ...]
    parameters: Mapping[str, Any]  # what its stages depend on, flat

    @cached_property
    def values(self) -> dict[str, Any]:
        """Content of its params.yaml."""
        return yaml.safe_load((self.directory / "params.yaml").read_text())

    @property
    def seeds(self) -> dict[str, int]:
        """Root seeds of its random streams, by key of SEEDS."""
        return {key: self.parameters.get(key, self.parameters["seed"]) for key in SEEDS}

    @property
    def artifacts(self) -> Path:
        return self.directory / self.values["artifacts"]

    @cached_property
    def evaluations(self) -> Evaluations:
        """Its evaluations; those of a rehearsal with stand-ins are one directory deeper. Raises ArtifactError."""
        roots = [path for depth in ("*", "*/*") for path in self.directory.glob(f"{depth}/evals") if path.is_dir()]
        if len(roots) > 1:
            raise ArtifactError(f"{self.directory} is a finished cell and must hold one set of evaluations")
        return read_evaluations(*roots)


def finished_cells(sweep: Path) -> list[Cell]:
    """The finished cells of a sweep's directory, by name."""
    made = [(path.parent, read_json(path)) for path in sorted(sweep.glob("*/cell.json"))]
    return [
        Cell(directory, tuple(record["overrides"]), flatten(record["parameters"]))
        for directory, record in made
        if (directory / "finished.json").exists()
    ]
