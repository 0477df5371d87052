"""The one way in which work over rows survives a kill: values by key, in a file that is only ever appended to."""

import contextlib
import functools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

from pipeline.artifacts.storage import sha256_json
from pipeline.dag.execution import Shard, ShareDone, StageRun
from pipeline.errors import ArtifactError, ModelError, storage_error
from pipeline.record.progress import progress_bar

Item = TypeVar("Item")
Compute = Callable[[dict[str, Item]], Iterable[Mapping[str, Any]]]
"""From the items that have no value yet, by key, to batches of values by key, each handed over as soon as it is done.
Values are what JSON can hold. The model is to be opened inside: it is called only if something is missing."""


class ResumableMap:
    """Maps items to values, each of which is computed once, whatever kills the process: a line of the file ``path`` is
    a batch. One process at a time, or each ``shard`` with a file of its own and a share of the items, after which it
    raises ShareDone. ``bar`` counts ``size`` of each value. Raises ArtifactError where a line is not JSON."""

    def __init__(
        self,
        path: Path,
        bar: tqdm | None = None,
        size: Callable[[Any], int] = lambda value: 1,
        shard: Shard | None = None,
    ):
        self._path = path.with_stem(f"{path.stem}-{shard.rank}") if shard else path
        self._bar, self._size, self._shard = bar, size, shard
        self.values: dict[str, Any] = {}
        for file in sorted(path.parent.glob(f"{path.stem}*{path.suffix}")):
            self._read(file)

    def _read(self, file: Path) -> None:
        *lines, rest = file.read_bytes().split(b"\n")
        # Of another process's file the rest is a line that is being written.
        if rest and file == self._path:
            os.truncate(file, file.stat().st_size - len(rest))
        for number, line in enumerate(lines, start=1):
            try:
                self.values |= json.loads(line)
            except (ValueError, TypeError):
                raise ArtifactError(f"{file}: line {number} is not JSON; delete the file to start over") from None

    def __call__(self, items: Mapping[str, Item], compute: Compute) -> list[Any]:
        """The values of ``items``, in their order. May be called again with others."""
        items = self._shard.share(items) if self._shard else items
        missing = {key: item for key, item in items.items() if key not in self.values}
        if self._bar is not None:
            restored = sum(self._size(self.values[key]) for key in items.keys() - missing.keys())
            # What an earlier run has done is no throughput of this one.
            self._bar.initial += restored
            self._bar.update(restored)
        for batch in compute(missing) if missing else ():
            # ASCII, because a text may hold lone surrogates, which UTF-8 has no form for.
            line = json.dumps(batch).encode("ascii")
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("ab") as file:
                    file.write(line + b"\n")
            except OSError as error:
                raise storage_error(error, str(self._path)) or error from error
            # Read back, so that a value is the same whether it was computed now or before a kill.
            self.values |= json.loads(line)
            if self._bar is not None:
                self._bar.update(sum(map(self._size, batch.values())))
        if self._shard:
            raise ShareDone
        return [self.values[key] for key in items]


@contextlib.contextmanager
def resumable(
    run: StageRun,
    unit: str,
    total: int | None = None,
    *,
    suffix: str = "",
    size: Callable[[Any], int] = lambda value: 1,
    **bar: Any,
) -> Iterator[ResumableMap]:
    """A map with a progress bar; outputs are to be written inside the context, whose good end removes the
    unfinished work. ``suffix`` as in ``scratch``."""
    bar |= {"desc": run.title, "unit": unit, "total": total // run.shard.count if total and run.shard else total}
    # The bar is closed before an error is said, which it would be drawn over.
    with run.scratch(suffix) as scratch, progress_bar(**bar) as shown:
        yield ResumableMap(scratch / "values.jsonl", shown, size, run.shard)


def pair_scores(
    done: ResumableMap, open_scorer: Callable[[], Any]
) -> Callable[[Sequence[tuple[str, str]]], np.ndarray]:
    """From n pairs of texts to float64[n] scores, equal pairs scored once; raises ModelError. ``open_scorer``, called
    only if a score is missing, makes what has the method ``batches``."""
    opened = functools.cache(open_scorer)

    def compute(missing: dict[str, tuple[str, str]]) -> Iterator[dict[str, float]]:
        keys = list(missing)
        for indices, values in opened().batches(list(missing.values())):
            batch = {keys[index]: float(value) for index, value in zip(indices, values, strict=True)}
            if not all(map(math.isfinite, batch.values())):
                raise ModelError("the evaluator gave a score that is not finite")
            yield batch

    def scores(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        keys = [sha256_json(pair) for pair in pairs]
        done(dict(zip(keys, pairs, strict=True)), compute)
        return np.array([done.values[key] for key in keys], dtype=np.float64)

    return scores
