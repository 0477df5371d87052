"""Values survive a kill in the middle of a line, and nothing is computed twice."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ArtifactError, ModelError, StorageError
from pipeline.stages.resumable import ResumableMap, pair_scores
from tests.forked import in_child

VALUES = st.dictionaries(st.text(st.characters()), st.lists(st.text(st.characters()) | st.integers()), max_size=6)


def never(*_):
    raise AssertionError("opened for nothing")


def one_by_one(make):
    """Batches of one value each."""
    return lambda missing: ({key: make(item)} for key, item in missing.items())


@given(VALUES, st.data())
def test_a_cut_costs_the_cut_batch_only(tmp_path_factory, values, data):
    path = tmp_path_factory.mktemp("map") / "inner" / "values.jsonl"
    assert ResumableMap(path)(values, one_by_one(lambda value: value)) == list(values.values())
    assert ResumableMap(path)(values, never) == list(values.values())
    content = path.read_bytes() if values else b""
    cut = data.draw(st.integers(0, len(content)))
    if values:
        path.write_bytes(content[:cut])
    asked = []
    again = ResumableMap(path)(values, one_by_one(lambda value: asked.append(value) or value))
    assert again == list(values.values()) and asked == list(values.values())[content[:cut].count(b"\n") :]
    assert ResumableMap(path).values == values


def test_a_line_that_is_not_json(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\nnonsense\n")
    with pytest.raises(ArtifactError, match=r"bad\.jsonl: line 2 is not JSON"):
        ResumableMap(path)


def test_a_short_write_costs_its_batch_only(tmp_path):
    path = tmp_path / "values.jsonl"
    ResumableMap(path)({"a": 1}, one_by_one(str))

    def work():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(StorageError, match=r"values\.jsonl: file too large; raise the limit"):
            ResumableMap(path)({str(number): number for number in range(1000)}, lambda missing: [missing])

    assert in_child(work) == 0
    assert ResumableMap(path).values == {"a": "1"}


class Lengths:
    """Scores pairs in batches of two and counts them."""

    def __init__(self, value=None):
        self.scored, self.value = [], value

    def batches(self, pairs):
        for start in range(0, len(pairs), 2):
            batch = pairs[start : start + 2]
            self.scored += batch
            found = [self.value if self.value is not None else len(a) + 0.1 * len(b) for a, b in batch]
            yield list(range(start, start + len(batch))), np.array(found)


def test_equal_pairs_are_scored_once(tmp_path):
    path, scorer = tmp_path / "values.jsonl", Lengths()
    scores = pair_scores(ResumableMap(path), lambda: scorer)
    assert scores([("a", "b"), ("b", "a\ud800"), ("a", "b")]).tolist() == [1.1, 1.2, 1.1]
    assert scores([("a", "b"), ("c", "")]).tolist() == [1.1, 1.0] and scores([]).shape == (0,)
    assert scorer.scored == [("a", "b"), ("b", "a\ud800"), ("c", "")]
    assert pair_scores(ResumableMap(path), never)([("c", ""), ("a", "b")]).tolist() == [1.0, 1.1]


def test_scores_that_are_not_finite_are_not_kept(tmp_path):
    path = tmp_path / "values.jsonl"
    with pytest.raises(ModelError, match="not finite"):
        pair_scores(ResumableMap(path), lambda: Lengths(math.nan))([("a", "b")])
    assert pair_scores(ResumableMap(path), Lengths)([("a", "b")]).tolist() == [1.1]
