"""A DVC workspace beside the checkout: its own parameters, artifacts and dvc.lock, the project's code and data.

The workspace holds a dvc.yaml and a params.yaml of its own, links to code, settings and data, and a ``.dvc``
whose cache and run cache it shares with others. ``dvc repro`` in it skips what is done, resumes what
was killed, and takes from the cache what another workspace has made.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline.artifacts.storage import atomic_path
from pipeline.errors import ArtifactError, ConfigError

LINKED = ("pipeline", "conf", "models", "data")
"""What every workspace takes from the project."""


def write_if_changed(path: Path, text: str) -> None:
    """Write a text file unless it has that content: DVC would hash it again."""
    if not path.exists() or path.read_text() != text:
        with atomic_path(path) as temporary:
            temporary.write_text(text)


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
    params_text: str,
    definition: Mapping[str, Any],
    cache: Path,
    sources: Iterable[str],
) -> None:
    """Make the workspace or bring it up to date; artifacts and dvc.lock in it stay.

    Args:
        directory: The workspace.
        project: The checkout.
        params_text: Content of its params.yaml.
        definition: Content of its dvc.yaml.
        cache: DVC cache to share.
        sources: Dependencies of its stages that no stage makes; where relative, their top directory is linked.

    Raises:
        ArtifactError: A file stands where a link must be.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tops = {Path(source).parts[0] for source in sources if not Path(source).is_absolute() and ".." not in source}
    for name in sorted({*LINKED, *tops} - {"params.yaml", "dvc.yaml"}):
        if (project / name).exists():
            _link(directory / name, project / name)
    write_if_changed(directory / "dvc.yaml", yaml.safe_dump(dict(definition), sort_keys=False))
    write_if_changed(directory / "params.yaml", params_text)
    ignored = project / ".dvcignore"
    write_if_changed(directory / ".dvcignore", ignored.read_text() if ignored.exists() else "")
    initialise_dvc(directory, cache)


def initialise_dvc(directory: Path, cache: Path) -> None:
    """Do what `dvc init --no-scm` does, with a cache elsewhere and without the seconds that it takes."""
    location = os.path.relpath(cache.resolve(), (directory / ".dvc").resolve())
    config = f"[core]\n    analytics = false\n    no_scm = True\n[cache]\n    dir = {location}\n"
    write_if_changed(directory / ".dvc" / "config", config)


def params_values(path: Path) -> dict:
    """Content of a params.yaml, its ``dag`` section included. Raises ConfigError."""
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a mapping; `make params` writes it")
    return values
