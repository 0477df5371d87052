"""Pushing, to a hub of our own on this machine: what arrives, and what is refused before anything is sent."""

import pytest

from pipeline.errors import ArtifactError, ConfigError
from pipeline.publish import hub as publish_hub
from pipeline.publish.__main__ import main
from tests.hub_server import commit_of, hub

CARD = "---\nlicense: mit\n---\n\n# An adapter\n"


@pytest.fixture
def no_token(monkeypatch, tmp_path):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "nothing"))


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A hub that pushes go to: its directory and the requests that it got."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with hub(tmp_path / "hub") as (endpoint, requests):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        yield tmp_path / "hub" / "models", requests


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "published"
    (path / "merged").mkdir(parents=True)
    for name, text in (("README.md", CARD), ("adapter_config.json", "{}"), ("merged/config.json", "{}")):
        (path / name).write_text(text)
    return path


def files(place):
    found = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if path.name != ".gitattributes"}


def test_a_push_makes_the_repository_what_the_directory_is(server, directory, monkeypatch):
    models, requests = server
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    address = publish_hub.push(directory, "owner/name", False, "first")
    assert address.endswith(f"/owner/name/commit/{commit_of(models / 'owner' / 'name')}")
    assert files(models / "owner" / "name") == files(directory)
    # The card is validated before any file is sent.
    order = [request.rsplit("/", 1)[-1] if "owner" not in request else request for request in requests]
    assert order.index("validate-yaml") < requests.index("POST /api/models/owner/name/commit/main")
    # Merged weights that are no longer there would be another adapter's; what others have added stays.
    (models / "owner" / "name" / "LICENSE").write_text("theirs")
    (directory / "merged" / "config.json").unlink()
    (directory / "merged").rmdir()
    publish_hub.push(directory, "owner/name", False, "second")
    assert files(models / "owner" / "name") == {**files(directory), "LICENSE": "theirs"}


def test_a_private_repository_is_private(server, directory, monkeypatch):
    models, requests = server
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    publish_hub.push(directory, "owner/hidden", True, "first")
    assert files(models / "owner" / "hidden") == files(directory)
    (models / "owner" / "public").mkdir()
    before = len(requests)
    with pytest.raises(ConfigError, match="--private: owner/public exists and is public"):
        publish_hub.push(directory, "owner/public", True, "first")
    assert not files(models / "owner" / "public") and not any("commit" in request for request in requests[before:])


def test_refusals_of_the_hub_are_one_sentence(server, directory, no_token, monkeypatch):
    models, _ = server
    with pytest.raises(ArtifactError, match="cannot push to owner/name: .*401"):
        publish_hub.push(directory, "owner/name", False, "first")
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    (directory / "README.md").write_text(CARD.replace("mit", "refused"))
    with pytest.raises(ArtifactError, match=r"cannot push to owner/name: Invalid metadata in README\.md"):
        publish_hub.push(directory, "owner/name", False, "first")
    assert not files(models)


@pytest.mark.parametrize("name", ["name", "a/b/c", "owner/na me", "owner/-name", "owner/name.git", "/name"])
def test_names_that_are_no_repository(name):
    with pytest.raises(ConfigError, match="--repository: .* is not OWNER/NAME"):
        publish_hub.check_repository(name)
    publish_hub.check_repository("owner/name-1.b_2")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"push": True}, "--push needs --repository"),
        ({"private": True}, "--private needs --repository"),
        ({"push": True, "repository": "owner/name"}, "--push: there is no token of the hub"),
        ({"repository": "name"}, "is not OWNER/NAME"),
    ],
)
def test_options_are_checked_before_any_work(tmp_path, no_token, options, message):
    given = {"output": None, "repository": None, "push": False, "merged": False, "private": False, "licence": None}
    with pytest.raises(ConfigError, match=message):
        main(tmp_path / "nowhere.yaml", "m", "soft", **{**given, **options})
