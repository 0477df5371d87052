"""Artifacts of other versions of the libraries are reported and left alone."""

import json

from pipeline.compose import compose_params, main, write_files
from pipeline.record.provenance import package_versions
from pipeline.record.versions import version_notes
from tests.conftest import ROOT


def record(path, **packages):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"packages": {**package_versions(), **packages}}))


def test_every_other_version_is_named_with_what_it_made(tmp_path):
    record(tmp_path / "prompts" / "provenance.json")
    record(tmp_path / "adapters" / "m" / "soft" / "provenance.json", torch="1.0", wandb="1.0")
    for number in range(4):
        record(tmp_path / "tries" / f"{number}.provenance.json", torch="0.9", scipy="0.1")
    notes = version_notes(tmp_path)
    installed = package_versions()
    assert len(notes) == 3
    assert f"1 artifact(s) were computed with torch 1.0, installed is {installed['torch']}: " in notes[0]
    assert str(tmp_path / "adapters" / "m" / "soft" / "provenance.json") in notes[0]
    assert all(note.startswith("4 artifact(s)") and note.count("provenance.json") == 3 for note in notes[1:])
    assert "and 1 more" in notes[1] and "`dvc repro --force STAGE`" in notes[1]


def test_nothing_is_said_where_all_agree(tmp_path):
    record(tmp_path / "prompts" / "provenance.json")
    assert version_notes(tmp_path) == [] == version_notes(tmp_path / "not there")


def test_the_check_says_so_and_passes(tmp_path, capsys):
    artifacts = tmp_path / "artifacts"
    overrides = [f"artifacts={artifacts}"]
    write_files(tmp_path, compose_params(ROOT / "conf", overrides), overrides)
    record(artifacts / "prompts" / "provenance.json", scipy="0.1")
    main([], tmp_path / "params.yaml", ROOT / "conf", check_only=True, recorded=False)
    assert "note: 1 artifact(s) were computed with scipy 0.1" in capsys.readouterr().err
