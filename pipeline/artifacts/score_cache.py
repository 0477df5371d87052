"""Scores of text pairs, kept by content: a pair that was scored once is never given to a model again.

A key is the SHA-256 of what the score depends on: the evaluator's identity and the two texts.
The file is SQLite and may be used by several processes; each batch is a transaction, so a kill
costs the batch that was running, and a power loss no more than that.
"""

import contextlib
import hashlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.core.language.novelty_partition import Pair
from pipeline.errors import ArtifactError, BusyError, ModelError, storage_error

KEYS_PER_QUERY = 500
LOCK_TIMEOUT_SECONDS = 120.0


class Scorer(Protocol):
    """What gives pairs of texts a number, a batch at a time."""

    def batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yield indices and scores of the pairs, each index once, as soon as a batch is done."""


def content_key(identity: Mapping[str, Any], pair: Pair) -> bytes:
    """SHA-256 of an evaluator's identity (JSON values) and two texts, in their order; 32 bytes."""
    return hashlib.sha256(json.dumps([identity, *pair], sort_keys=True).encode("ascii")).digest()


class ScoreCache:
    """Numbers by key in one SQLite file, which is made where there is none."""

    def __init__(self, path: Path):
        """Open the file.

        Raises:
            ArtifactError: It is no such cache, or damaged.
            BusyError: Another process has held it for two minutes.
            StorageError: The disk is full, or the file may not be used.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS)
            with self._connection:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID"
                )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if refused := storage_error(error, str(self.path)):
                raise refused from error
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(
                    f"{self.path} has been in use by another process for {LOCK_TIMEOUT_SECONDS:.0f} s"
                ) from error
            raise ArtifactError(f"{self.path} is not a cache of scores ({error}); delete it to start over") from error

    def find(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """The known ones of ``keys`` with their values. Raises what the constructor raises."""
        known: dict[bytes, float] = {}
        for start in range(0, len(keys), KEYS_PER_QUERY):
            chunk = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(chunk))
            with self._explained():
                known.update(self._connection.execute(f"SELECT key, value FROM scores WHERE key IN ({marks})", chunk))
        return known

    def add(self, scores: Mapping[bytes, float]) -> None:
        """Store values; one that another process stored first stays. Raises what the constructor raises."""
        with self._explained(), self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?)", scores.items())

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class CachedScores:
    """float64[n] scores of n pairs, from the cache where known, else from a scorer and then into the cache.

    Args:
        cache: The file; None for scores so cheap that they are not kept.
        identity: All that a score depends on beside the two texts.
        open_scorer: Makes the scorer; called once, and only if some score is not known.
        progress: Called with the number of pairs that are done, batch by batch.

    Attributes:
        asked: Pairs asked for.
        calls: Pairs given to the scorer.
    """

    def __init__(
        self,
        cache: ScoreCache | None,
        identity: Mapping[str, Any],
        open_scorer: Callable[[], Scorer],
        progress: Callable[[int], Any] = lambda count: None,
    ):
        self._cache, self._identity, self._open_scorer, self._progress = cache, identity, open_scorer, progress
        self.scorer: Scorer | None = None
        self.asked = self.calls = 0

    @property
    def hits(self) -> int:
        """Pairs answered by the cache, or by the same pair asked for at the same time."""
        return self.asked - self.calls

    def __call__(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Scores of the pairs. Raises ModelError if one is not finite."""
        keys = {pair: content_key(self._identity, pair) for pair in dict.fromkeys(pairs)}
        known = self._cache.find(list(keys.values())) if self._cache else {}
        missing = [pair for pair, key in keys.items() if key not in known]
        self.asked += len(pairs)
        self._progress(len(pairs) - len(missing))
        if missing:
            self.scorer = self.scorer or self._open_scorer()
            for indices, values in self.scorer.batches(missing):
                new = {keys[missing[index]]: float(value) for index, value in zip(indices, values, strict=True)}
                if not all(map(math.isfinite, new.values())):
                    raise ModelError(f"the evaluator {self._identity.get('kind')} gave a score that is not finite")
                if self._cache:
                    self._cache.add(new)
                known.update(new)
                self.calls += len(new)
                self._progress(len(new))
        return np.array([known[keys[pair]] for pair in pairs], dtype=np.float64)
