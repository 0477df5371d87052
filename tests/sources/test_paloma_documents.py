"""PALOMA's files: what is read, in which order, and what is refused with which words."""

import gzip
import json
from pathlib import Path

import pytest

from pipeline.errors import ArtifactError
from pipeline.sources.paloma_documents import document_chunks, find_documents, read_documents
from scripts import make_paloma_slices
from tests.conftest import ROOT

SLICES = ("prose", "reference", "code", "tables", "german", "dialogue", "numbers")


def write(path: Path, *texts, tail: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    path.write_bytes(gzip.compress(lines.encode("utf-8", "surrogatepass") + tail))
    return path


def test_texts_come_as_they_are_and_in_order(tmp_path):
    texts = ["ä\u2028b", "two\nlines", " "]
    path = write(tmp_path / "a.jsonl.gz", *texts, tail=b'\n\n{"id": 3, "text": "last"}')
    assert list(read_documents(path)) == [*texts, "last"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": ""}', "line 2: the document has zero bytes"),
        (b'{"body": "x"}', "line 2 must be a JSON object with a text in the field 'text'"),
        (b'{"text": "x"', "line 2 is not JSON"),
        (b'{"text": "\xff"}', "line 2 is not JSON"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, words):
    path = write(tmp_path / "bad.jsonl.gz", "good", tail=line + b"\n")
    with pytest.raises(ArtifactError, match=rf"bad\.jsonl\.gz: {words}"):
        list(read_documents(path))


def test_find_documents_and_chunks(tmp_path):
    write(tmp_path / "b" / "test" / "1.jsonl.gz", "ä", "bc")
    write(tmp_path / "b" / "test" / "0.jsonl.gz", "def")
    write(tmp_path / "a" / "test" / "x.jsonl.gz", "g" * 5)
    write(tmp_path / "a" / "val" / "x.jsonl.gz", "other split")
    found = find_documents(tmp_path, ["b", "a"], "test", None)
    assert [(f.slice_name, f.path.name, f.num_documents, f.num_bytes) for f in found] == [
        ("b", "0.jsonl.gz", 1, 3),
        ("b", "1.jsonl.gz", 2, 4),
        ("a", "x.jsonl.gz", 1, 5),
    ]
    assert [f.num_documents for f in find_documents(tmp_path, ["b"], "test", 2)] == [1, 1]
    # Files behind the limit are not even read.
    (tmp_path / "b" / "test" / "1.jsonl.gz").write_bytes(b"nonsense")
    assert [f.num_documents for f in find_documents(tmp_path, ["b"], "test", 1)] == [1]
    with pytest.raises(ArtifactError, match="slice 'c' has no files: .*slices with the split 'test' are: a, b"):
        find_documents(tmp_path, ["a", "c"], "test", None)
    write(tmp_path / "c" / "test" / "x.jsonl.gz")
    with pytest.raises(ArtifactError, match="slice 'c' has no documents"):
        find_documents(tmp_path, ["c"], "test", None)
    write(tmp_path / "s" / "test" / "x.jsonl.gz", "aaa", "bb", "cccc", "d", "ee")
    (file,) = find_documents(tmp_path, ["s"], "test", 4)
    assert list(document_chunks(file, 0, 4, 5)) == [["aaa", "bb"], ["cccc", "d"]]
    assert list(document_chunks(file, 1, 4, 3)) == [["bb", "cccc"], ["d"]]
    assert list(document_chunks(file, 4, 4, 5)) == []


def test_the_project_s_own_slices():
    root = ROOT / "data" / "paloma"
    files = find_documents(root, SLICES, "test", None)
    assert [file.slice_name for file in files] == list(SLICES) and all(file.num_documents >= 20 for file in files)
    for name, texts in make_paloma_slices.own_slices().items():
        path = root / name / "test" / f"{name}.jsonl.gz"
        # The compressed bytes are zlib's, whose versions may differ; the content is ours.
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(make_paloma_slices.gzip_json_lines(name, texts))
