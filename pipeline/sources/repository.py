"""Which commit of a hub repository is meant, and its files on this disk."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pipeline.errors import ArtifactError, ModelError, PipelineError, first_line

PUBLISHED_RESULTS = ("results/*",)
"""Files of a data set's repository that no stage reads: NoveltyBench's holds all published responses, too."""
Kind = Literal["model", "dataset"]


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit, which never moves."""
    return revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None


def _failure(repository: str, kind: Kind) -> tuple[type[PipelineError], str]:
    return (ModelError, repository) if kind == "model" else (ArtifactError, f"the data set {repository}")


def current_commit(repository: str, revision: str | None, kind: Kind) -> str:
    """Ask the hub for the commit behind a branch or tag; None means the default branch."""
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    failure, name = _failure(repository, kind)
    ask = HfApi().model_info if kind == "model" else HfApi().dataset_info
    try:
        return ask(repository, revision=revision).sha
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, HTTPError, OSError) as error:
        raise failure(f"cannot reach the hub for {name}: {first_line(error)}") from None


def pinned_commit(repository: str, revision: str | None, kind: Kind) -> str:
    """``revision`` if it is a commit already, which needs no hub; else ``current_commit``."""
    return revision if is_commit(revision) else current_commit(repository, revision, kind)


def fetched(
    repository: str,
    revision: str | None,
    kind: Kind,
    *,
    files: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
) -> Path:
    """Directory with a repository's files at a revision, downloaded unless the cache has them; ``files`` and
    ``without`` are patterns. Raises ModelError, or for a data set ArtifactError."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    failure, name = _failure(repository, kind)
    options = {"repo_type": kind, "revision": revision, "allow_patterns": files, "ignore_patterns": without}
    try:
        return Path(snapshot_download(repository, **options))
    except GatedRepoError:
        raise failure(f"{name} is gated: ask for access on its page and log in with `hf auth login`") from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise failure(
            f"{name} at {revision} is not in the cache and the hub cannot be reached; "
            "`python -m pipeline.sources.fetch` downloads it where there is network"
        ) from None
    except (HfHubHTTPError, HFValidationError, HTTPError, OSError) as error:
        raise failure(f"cannot fetch {name}: {first_line(error)}") from None


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Raise ArtifactError, naming the data set ``source``, for what the package ``datasets`` raises."""
    from datasets.exceptions import DatasetsError

    try:
        yield
    except (OSError, ValueError, DatasetsError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise ArtifactError(f"cannot read the data set {source}: {reason}") from None
