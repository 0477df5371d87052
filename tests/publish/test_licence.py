"""The licence of a base checkpoint: as its own files state it, never guessed."""

import json

import pytest

from pipeline.errors import ArtifactError, ConfigError, ModelError
from pipeline.publish.licence import base_licence


def card(directory, metadata):
    (directory / "README.md").write_text(f"---\n{metadata}\n---\n\n# Some model\n")


def test_a_card_says_it(tmp_path):
    card(tmp_path, "license: other\nlicense_name: gemma-terms\nlicense_link: https://example.org/terms")
    found = base_licence(str(tmp_path), None)
    assert (found.identifier, found.name, found.link) == ("other", "gemma-terms", "https://example.org/terms")
    assert found.source == f"the model card of {tmp_path}"
    assert base_licence(str(tmp_path), None, "other") == found
    with pytest.raises(ConfigError, match="--licence: mit contradicts the model card .* which says other"):
        base_licence(str(tmp_path), None, "mit")


def test_an_imported_file_says_it(tmp_path):
    (tmp_path / "gguf.json").write_text(json.dumps({"license": "apache-2.0", "quantisation": "Q4_1"}))
    card(tmp_path, "tags: [a]")
    assert base_licence(str(tmp_path), None).identifier == "apache-2.0"


@pytest.mark.parametrize("text", [None, "# A title alone\n", "---\ntags: [a]\n---\n", "---\nlicense:\n---\n"])
def test_what_nobody_says_must_be_given(tmp_path, text):
    if text is not None:
        (tmp_path / "README.md").write_text(text)
    with pytest.raises(ConfigError, match=r"--licence: .*not known \(neither README.md .*\), and is not guessed"):
        base_licence(str(tmp_path), None)
    assert base_licence(str(tmp_path), None, "mit").identifier == "mit"


def test_unreadable_metadata_is_named(tmp_path):
    card(tmp_path, "license: [a")
    with pytest.raises(ArtifactError, match=r"README\.md: its metadata is not YAML"):
        base_licence(str(tmp_path), None, "mit")


def test_a_repository_of_the_hub(tmp_path, monkeypatch):
    asked = []

    def fetched(repository, revision, kind, *, files):
        asked.append((repository, revision, kind, files))
        if repository == "owner/unreachable":
            raise ModelError("owner/unreachable is gated")
        return tmp_path

    monkeypatch.setattr("pipeline.publish.licence.fetched", fetched)
    card(tmp_path, "license: llama3.2")
    assert base_licence("owner/name", "c" * 40).identifier == "llama3.2"
    assert asked == [("owner/name", "c" * 40, "model", ["README.md"])]
    with pytest.raises(ConfigError, match=r"not known \(owner/unreachable is gated\)"):
        base_licence("owner/unreachable", None)
    assert base_licence("owner/unreachable", None, "mit").identifier == "mit"
