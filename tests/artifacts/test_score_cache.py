"""The content-addressed cache: keys, killing, sharing between processes, damaged files."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.artifacts.score_cache import KEYS_PER_QUERY, CachedScores, ScoreCache, content_key
from pipeline.engines.judges.pair_scorer import PairScorer
from pipeline.errors import ArtifactError, ModelError
from tests.conftest import ROOT

IDENTITY = {"kind": "test", "checkpoint": {"files": {"a": "b"}}}


class Lengths(PairScorer):
    """A scorer in batches of two that counts, and may be killed before a batch."""

    def __init__(self, kill_before_batch=None, value=None):
        self.scored, self.kill_before_batch, self.value = [], kill_before_batch, value

    def batches(self, pairs):
        for number, start in enumerate(range(0, len(pairs), 2)):
            if number == self.kill_before_batch:
                raise KeyboardInterrupt
            indices = list(range(start, min(start + 2, len(pairs))))
            self.scored += [pairs[index] for index in indices]
            values = [len(pairs[i][0]) + 0.1 * len(pairs[i][1]) if self.value is None else self.value for i in indices]
            yield indices, np.array(values)


PAIRS = [("a" * i, "b" * (7 - i)) for i in range(7)]
EXPECTED = [i + 0.1 * (7 - i) for i in range(7)]


def scores_with(path, scorer, identity=IDENTITY):
    cached = CachedScores(ScoreCache(path), identity, lambda: scorer)
    return cached, cached(PAIRS)


def test_second_run_asks_nothing(tmp_path):
    first, values = scores_with(tmp_path / "cache.sqlite", Lengths())
    assert values.tolist() == EXPECTED and (first.calls, first.hits) == (7, 0)

    def never():
        raise AssertionError("the scorer was opened")

    again = CachedScores(ScoreCache(tmp_path / "cache.sqlite"), IDENTITY, never)
    assert again(PAIRS[::-1]).tolist() == EXPECTED[::-1] and (again.calls, again.hits) == (0, 7)


def test_equal_pairs_are_asked_once(tmp_path):
    scorer = Lengths()
    cached = CachedScores(ScoreCache(tmp_path / "cache.sqlite"), IDENTITY, lambda: scorer)
    assert cached([("a", "b"), ("b", "a"), ("a", "b")]).tolist() == [1.1, 1.1, 1.1]
    assert scorer.scored == [("a", "b"), ("b", "a")] and (cached.calls, cached.hits) == (2, 1)
    assert cached([]).shape == (0,)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_kill_loses_at_most_one_batch(tmp_path, batch):
    killed = Lengths(kill_before_batch=batch)
    with pytest.raises(KeyboardInterrupt):
        scores_with(tmp_path / "cache.sqlite", killed)
    resumed = Lengths()
    cached, values = scores_with(tmp_path / "cache.sqlite", resumed)
    assert values.tolist() == EXPECTED
    assert len(killed.scored) == 2 * batch and len(killed.scored) + len(resumed.scored) == 7
    assert cached.hits == 2 * batch


def test_another_evaluator_shares_nothing(tmp_path):
    scores_with(tmp_path / "cache.sqlite", Lengths())
    cached, _ = scores_with(tmp_path / "cache.sqlite", Lengths(), {**IDENTITY, "kind": "other"})
    assert cached.calls == 7


def test_scores_that_are_not_finite_are_not_kept(tmp_path):
    with pytest.raises(ModelError, match="not finite"):
        scores_with(tmp_path / "cache.sqlite", Lengths(value=math.nan))
    assert scores_with(tmp_path / "cache.sqlite", Lengths())[0].calls == 7


def test_without_a_file(tmp_path):
    cached = CachedScores(None, IDENTITY, Lengths)
    assert cached(PAIRS).tolist() == EXPECTED and list(tmp_path.iterdir()) == []


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_keys(first, second):
    assert (content_key(IDENTITY, first) == content_key(IDENTITY, second)) == (first == second)
    assert len(content_key(IDENTITY, ("\ud800", "x"))) == 32


def test_more_keys_than_one_query_holds(tmp_path):
    cache = ScoreCache(tmp_path / "cache.sqlite")
    entries = {number.to_bytes(32): float(number) for number in range(2 * KEYS_PER_QUERY + 7)}
    cache.add(entries)
    assert cache.find([*entries, b"unknown"]) == entries


KEEPER = (
    "import sys, pathlib; from pipeline.artifacts.score_cache import ScoreCache\n"
    "cache = ScoreCache(pathlib.Path(sys.argv[1])); start = int(sys.argv[2])\n"
    "for n in range(start, start + 100000):\n"
    "    cache.add({(2 * n + i).to_bytes(32): float(2 * n + i) for i in (0, 1)}); print(n, flush=True)"
)


def test_killed_writers_of_the_score_cache_lose_nothing_they_had_stored(tmp_path):
    path, reached = tmp_path / "cache.sqlite", 0
    for round_number in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", KEEPER, str(path), str(reached)], cwd=ROOT, text=True, stdout=subprocess.PIPE
        )
        writer.stdout.readline()
        time.sleep(0.01 + 0.013 * round_number)
        writer.kill()
        lines = writer.communicate()[0].split("\n")[:-1]
        last = int(lines[-1]) if lines else reached
        keys = [number.to_bytes(32) for number in range(2 * (last + 2))]
        found = ScoreCache(path).find(keys)
        # All batches that were acknowledged; of the running one both values or neither.
        assert len(found) in (2 * (last + 1), 2 * (last + 2))
        assert found == {key: float(number) for number, key in enumerate(keys) if key in found}
        reached = last + 1


def test_damaged_file_is_named(tmp_path):
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(ArtifactError, match=r"cache.sqlite is not a cache of scores"):
        ScoreCache(path)
