"""Rows survive a kill in the middle of a line, whatever text they hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.journal import Journal
from pipeline.errors import ArtifactError, StorageError
from tests.forked import in_child


@given(st.lists(st.fixed_dictionaries({"n": st.integers(), "text": st.text(st.characters())}), max_size=5), st.data())
def test_rows_come_back_and_a_cut_costs_the_cut_line_only(tmp_path_factory, rows, data):
    path = tmp_path_factory.mktemp("journal") / "rows.jsonl"
    Journal(path).append(rows[:2])
    Journal(path).append(rows[2:])
    assert Journal(path).rows() == rows
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    survived = content[:cut].count(b"\n")
    journal = Journal(path)
    assert journal.rows() == rows[:survived]
    journal.append(rows[survived:])
    assert Journal(path).rows() == rows


def test_no_file_and_bad_line(tmp_path):
    assert Journal(tmp_path / "none.jsonl").rows() == []
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\nnonsense\n")
    with pytest.raises(ArtifactError, match=r"bad\.jsonl: line 2 is not JSON"):
        Journal(path).rows()


def test_a_short_write_leaves_no_part_of_a_batch(tmp_path):
    path = tmp_path / "rows.jsonl"
    Journal(path).append([{"n": 1}])

    def work():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(StorageError, match=r"rows\.jsonl: file too large; raise the limit"):
            Journal(path).append({"n": number} for number in range(1000))

    content = path.read_bytes()
    assert in_child(work) == 0
    assert path.read_bytes() == content
