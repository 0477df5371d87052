"""What pins an evaluator: the files of a directory, or the commit of a hub repository."""

import hashlib

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled

from pipeline.engines.judges.evaluator import load_evaluator, load_evaluator_tokenizer, pinned
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import save_classifier

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_directory_is_its_files(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "README.md").write_text("says nothing about the weights")
    assert pinned(str(tmp_path), "ignored") == {"files": {"config.json": hashlib.sha256(b"{}").hexdigest()}}
    for missing in (str(tmp_path / "nowhere"), "./nowhere", "models/nowhere"):
        with pytest.raises(ModelError, match="nowhere does not exist"):
            pinned(missing, None)


def test_a_repository_is_its_commit(monkeypatch):
    asked = []

    class Info:
        sha = COMMIT

    monkeypatch.setattr(HfApi, "model_info", lambda self, name, revision: asked.append((name, revision)) or Info())
    for revision in (None, "main", COMMIT):
        assert pinned("owner/name", revision) == {"repository": "owner/name", "revision": COMMIT}
    # A full commit needs no network.
    assert asked == [("owner/name", None), ("owner/name", "main")]

    def offline(self, name, revision):
        raise OfflineModeIsEnabled("no network\nmore")

    monkeypatch.setattr(HfApi, "model_info", offline)
    with pytest.raises(ModelError, match="cannot reach the hub for owner/name: no network$"):
        pinned("owner/name", None)


def test_tokenizers_that_do_not_fit(tmp_path):
    checkpoint = str(save_classifier(tmp_path / "deberta"))
    model = load_evaluator(checkpoint, None, "float32", "cpu")
    assert not model.training
    tokenizer = load_evaluator_tokenizer(checkpoint, None, model)
    tokenizer.add_tokens(["zebra"])
    tokenizer.save_pretrained(tmp_path / "larger")
    with pytest.raises(ModelError, match=r"the tokenizer of .* has \d+ tokens, the model \d+"):
        load_evaluator_tokenizer(str(tmp_path / "larger"), None, model)
    (tmp_path / "larger" / "tokenizer.json").write_text("{")
    for broken in ("larger", "nowhere"):
        with pytest.raises(ModelError, match="cannot load the tokenizer"):
            load_evaluator_tokenizer(str(tmp_path / broken), None, model)
