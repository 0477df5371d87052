"""Artifacts: round trips, atomic replacement, damage that is noticed and named."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.json_lines import read_json_lines, write_json_lines
from pipeline.artifacts.prompts import read_prompts, write_prompts
from pipeline.artifacts.storage import read_json, read_table, write_json, write_table
from pipeline.artifacts.tries import TrieStore, write_tries
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.trie import build_trie
from pipeline.errors import ArtifactError
from tests.golden.make_golden import byte_sequences


@pytest.fixture(scope="module")
def prompts():
    return build_split("ood", selection="selected")


@pytest.fixture(scope="module")
def spaces(prompts):
    return {p.prompt_id: discretize(p.law, num_decimals=2, max_bins=50) for p in prompts}


def test_tries_round_trip_memory_mapped(spaces, tmp_path):
    tries = {k: build_trie(byte_sequences(s.values), s.probabilities, 0) for k, s in spaces.items()}
    write_tries(tmp_path / "tries", tries, terminator=0)
    store = TrieStore(tmp_path / "tries")
    assert list(store) == list(tries) and store.terminator == 0
    for prompt_id, trie in tries.items():
        back = store[prompt_id]
        for name in ("edge_offsets", "edge_tokens", "edge_children", "edge_probabilities"):
            stored = getattr(back, name)
            np.testing.assert_array_equal(stored, getattr(trie, name))
            assert stored.dtype == getattr(trie, name).dtype
        assert isinstance(back.edge_tokens.base, np.memmap) or isinstance(back.edge_tokens, np.memmap)
    write_tries(tmp_path / "without families", {}, terminator=0)


def damaged(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def test_truncated_artifacts_are_named(prompts, spaces, tmp_path):
    write_prompts(tmp_path / "p.parquet", prompts)
    with pytest.raises(ArtifactError, match=r"p\.parquet is truncated"):
        read_prompts(damaged(tmp_path / "p.parquet"))
    write_json(tmp_path / "j.json", {"a": [1, 2, 3]})
    with pytest.raises(ArtifactError, match=r"j\.json is not complete"):
        read_json(damaged(tmp_path / "j.json"))
    tries = {k: build_trie(byte_sequences(s.values), s.probabilities, 0) for k, s in spaces.items()}
    write_tries(tmp_path / "t", tries, terminator=0)
    damaged(tmp_path / "t" / "edge_tokens.npy")
    with pytest.raises(ArtifactError, match=r"edge_tokens\.npy has .* truncated"):
        TrieStore(tmp_path / "t")


def test_missing_file_and_column(tmp_path):
    with pytest.raises(ArtifactError, match="does not exist; `dvc repro` builds it"):
        read_table(tmp_path / "no.parquet", ["a"])
    write_table(tmp_path / "t.parquet", pd.DataFrame({"a": [1]}))
    with pytest.raises(ArtifactError, match="no column 'b'"):
        read_table(tmp_path / "t.parquet", ["a", "b"])


def test_a_table_comes_back_without_its_index(tmp_path):
    table = pd.DataFrame({"a": [1, 2]}, index=[7, 5])
    write_table(tmp_path / "t.parquet", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet", ["a"]), table.reset_index(drop=True))


def test_undefined_numbers_are_not_written_as_nan(tmp_path):
    for write, value in ((write_json, {"value": math.nan}), (write_json_lines, [{"value": math.nan}])):
        with pytest.raises(ValueError):
            write(tmp_path / "a.json", value)
    assert not list(tmp_path.iterdir())


@given(st.lists(st.fixed_dictionaries({"text": st.text(st.characters(exclude_categories=())), "n": st.integers()})))
def test_json_lines_hold_any_text(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    write_json_lines(path, rows)
    assert read_json_lines(path, ("text", "n")) == rows
    assert len(path.read_bytes().split(b"\n")) == len(rows) + 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": 2', "rows.jsonl: line 2 is not JSON"),
        (b"[]", "line 1 is not a JSON object"),
        (b'{"b": 1}', "line 1 has no field 'a'; its fields are"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_json_lines_that_cannot_be_used(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": "\xe2\x80\xa8"}')
    assert read_json_lines(path, ("a",)) == [{"a": 1}, {"a": "\u2028"}]
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        read_json_lines(path, ("a",))
