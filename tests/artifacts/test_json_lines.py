"""JSON lines: any text survives; what is not a line of JSON is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.json_lines import read_json_lines, write_json_lines
from pipeline.errors import ArtifactError

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(st.lists(st.fixed_dictionaries({"text": ANY_TEXT, "n": st.integers()})))
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    write_json_lines(path, rows)
    assert read_json_lines(path, ("text", "n")) == rows
    assert len(path.read_bytes().split(b"\n")) == len(rows) + 1


def test_byte_order_mark_and_blank_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": "\xe2\x80\xa8"}')
    assert read_json_lines(path, ("a",)) == [{"a": 1}, {"a": "\u2028"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": 2', "rows.jsonl: line 2 is not JSON"),
        (b"[]", "line 1 is not a JSON object"),
        (b'{"b": 1}', "line 1 has no field 'a'; its fields are"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_unusable_lines(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        read_json_lines(path, ("a",))


def test_undefined_numbers_are_no_json(tmp_path):
    with pytest.raises(ValueError):
        write_json_lines(tmp_path / "rows.jsonl", [{"a": float("nan")}])
    assert list(tmp_path.iterdir()) == []
