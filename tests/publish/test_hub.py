"""Pushing: what is sent to the hub, and what is refused before anything is."""

from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled

from pipeline.errors import ArtifactError, ConfigError
from pipeline.publish import hub
from pipeline.publish.__main__ import main


@pytest.fixture
def calls(monkeypatch):
    """A hub that has only public repositories and takes everything; what it was told."""
    calls = []

    def upload_folder(self, **options):
        calls.append(("upload", options))
        return SimpleNamespace(commit_url="https://hub/commit/1")

    monkeypatch.setattr(HfApi, "create_repo", lambda self, name, **options: calls.append((name, options)))
    monkeypatch.setattr(HfApi, "model_info", lambda self, name: SimpleNamespace(private=False))
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    return calls


def test_a_push_sends_the_directory(calls, tmp_path):
    assert hub.push(tmp_path, "owner/name", False, "first") == "https://hub/commit/1"
    assert calls == [
        ("owner/name", {"private": None, "exist_ok": True}),
        ("upload", {"repo_id": "owner/name", "folder_path": tmp_path, "commit_message": "first"}),
    ]


def test_nothing_private_is_sent_to_a_public_repository(calls, tmp_path):
    with pytest.raises(ConfigError, match="--private: owner/name exists and is public"):
        hub.push(tmp_path, "owner/name", True, "first")
    assert [name for name, _ in calls] == ["owner/name"]


def test_refusals_of_the_hub_are_one_sentence(calls, tmp_path, monkeypatch):
    def refuse(self, **options):
        raise OfflineModeIsEnabled("no network\nand more")

    monkeypatch.setattr(HfApi, "upload_folder", refuse)
    with pytest.raises(ArtifactError, match="^cannot push to owner/name: no network$"):
        hub.push(tmp_path, "owner/name", False, "first")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"push": True}, "--push needs --repository"),
        ({"private": True}, "--private needs --repository"),
        ({"push": True, "repository": "owner/name"}, "--push: there is no token of the hub"),
        *(
            ({"repository": name}, "is not OWNER/NAME")
            for name in ("name", "a/b/c", "owner/na me", "owner/-x", "/name")
        ),
    ],
)
def test_options_are_checked_before_any_work(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    given = {"output": None, "repository": None, "push": False, "private": False, "licence": None}
    with pytest.raises(ConfigError, match=message):
        main(tmp_path / "nowhere.yaml", "m", "soft", **{**given, **options})
