"""Send a published directory to a repository of the hub. Nothing else of this package sends anything."""

from pathlib import Path

from pipeline.errors import ArtifactError, ConfigError, first_line


def check_repository(repository: str, push: bool) -> None:
    """Raise ConfigError unless the name is OWNER/NAME and, to push, there is a token; asks nothing of the hub."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    problem = "" if repository.count("/") == 1 else "an owner and a name with one / between them are needed"
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        problem = problem or first_line(error)
    if problem:
        raise ConfigError(f"--repository: {repository!r} is not OWNER/NAME: {problem}")
    if push and not get_token():
        raise ConfigError("--push: there is no token of the hub; log in with `hf auth login`, or set HF_TOKEN")


def push(directory: Path, repository: str, private: bool, message: str) -> str:
    """Upload a directory to a repository, which is created where there is none; the address of the commit.

    The hub validates the card's metadata before any file is sent.

    Raises:
        ConfigError: The repository is public and is asked to be private.
        ArtifactError: The hub cannot be reached, or refuses.
    """
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    hub = HfApi()
    try:
        hub.create_repo(repository, private=private or None, exist_ok=True)
        if private and not hub.model_info(repository).private:
            raise ConfigError(f"--private: {repository} exists and is public; change that on its page, or take another")
        commit = hub.upload_folder(repo_id=repository, folder_path=directory, commit_message=message)
    except (HfHubHTTPError, OfflineModeIsEnabled, HTTPError, OSError, ValueError) as error:
        raise ArtifactError(f"cannot push to {repository}: {first_line(error)}") from None
    return commit.commit_url
