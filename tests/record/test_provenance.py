"""What a run's record holds, and what makes two runs the same."""

import json

from pipeline.record.provenance import StageRecord, sha256_path


def test_identity_is_of_contents_not_of_paths(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    first, same, other = (StageRecord("s", {"p": 1}, [tmp_path / name], "code").identity for name in "abc")
    assert first == same != other
    assert StageRecord("s", {"p": 2}, [tmp_path / "a"], "code").identity != first
    assert StageRecord("s", {"p": 1}, [tmp_path / "a"], "other code").identity != first


def test_what_is_found_at_work_is_part_of_the_identity(tmp_path):
    record = StageRecord("s", {"p": 1, "q": 2}, [], "code")
    before = record.identity
    record.add(revision="abc")
    assert record.identity != before
    # Work that a parameter does not matter to is found again whatever its value, and whatever was found through it.
    other = StageRecord("s", {"p": 1, "q": 3}, [], "code")
    assert record.identity_without(["q"], []) == other.identity_without(["q"], []) != record.identity


def test_records_are_no_part_of_a_directorys_content(tmp_path):
    (tmp_path / "made" / "inner").mkdir(parents=True)
    (tmp_path / "made" / "table").write_text("1")
    before = sha256_path(tmp_path / "made")
    record = StageRecord("s", {"p": 1}, [], "code", seed=3, command="python -m s")
    record.write(tmp_path / "made" / "provenance.json", {"made": before}, rows=7)
    assert sha256_path(tmp_path / "made") == before
    content = json.loads((tmp_path / "made" / "provenance.json").read_text())
    assert content["outputs_sha256"] == {"made": before} and content["rows"] == 7 and content["seed"] == 3
    assert content["code"] == "code" and content["command"] == "python -m s" and content["parameters"] == {"p": 1}
    for name in ("inner/provenance.json", "table.provenance.json"):
        (tmp_path / "made" / name).write_text("of something in it")
    assert sha256_path(tmp_path / "made") == before
    (tmp_path / "made" / "inner" / "provenance").write_text("no record")
    assert sha256_path(tmp_path / "made") != before
