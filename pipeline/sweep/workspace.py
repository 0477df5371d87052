"""A DVC workspace beside the checkout: its own parameters, artifacts and dvc.lock, links to code and data, and a cache
that it shares with others. ``dvc repro`` in it skips what is done and takes from the cache what another has made.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.artifacts.storage import write_if_changed
from pipeline.compose import write_files
from pipeline.errors import ArtifactError

LINKED = ("pipeline", "conf", "models", "data")
"""What every workspace takes from the project."""


def _link(place: Path, target: Path) -> None:
    """A relative link, so that a checkout can be moved as a whole."""
    text = os.path.relpath(target, place.parent.resolve())
    if place.is_symlink() and os.readlink(place) == text:
        return
    if place.exists() and not place.is_symlink():
        raise ArtifactError(f"{place} is in the way of a link to {target}; remove or rename it")
    place.unlink(missing_ok=True)
    place.symlink_to(text)


def prepare_workspace(
    directory: Path,
    project: Path,
    values: dict[str, Any],
    overrides: Sequence[str],
    cache: Path,
    sources: Iterable[str],
) -> None:
    """Make the workspace or bring it up to date; artifacts and dvc.lock in it stay.

    ``overrides`` are what its parameters ``values`` were composed with, ``sources`` the dependencies of its stages that
    no stage makes: where relative, their top directory is linked. Raises ArtifactError for a file where a link must be.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tops = {Path(source).parts[0] for source in sources if not Path(source).is_absolute() and ".." not in source}
    for name in sorted(name for name in {*LINKED, *tops} if not name.endswith(".yaml")):
        if (project / name).exists():
            _link(directory / name, project / name)
    write_files(directory, values, list(overrides))
    for name in ("dvc.yaml", ".dvcignore"):
        write_if_changed(directory / name, (project / name).read_text() if (project / name).exists() else "")
    initialise_dvc(directory, cache)


def initialise_dvc(directory: Path, cache: Path) -> None:
    """Do what `dvc init --no-scm` does, with a cache elsewhere and without the seconds that it takes."""
    location = os.path.relpath(cache.resolve(), (directory / ".dvc").resolve())
    config = f"[core]\n    analytics = false\n    no_scm = True\n[cache]\n    dir = {location}\n"
    write_if_changed(directory / ".dvc" / "config", config)
