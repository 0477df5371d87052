"""Tables of output spaces: the canonical strings of every prompt, with probabilities."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import read_arrow
from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.fixed_point import FixedPointStrings, fixed_point_bytes

# Bounds the memory of writing: 64 prompts at 16,384 bins are about 40 MB.
SPACES_PER_ROW_GROUP = 64
NO_DECIMALS = -1
SCHEMA = pa.schema(
    {
        "prompt_id": pa.string(),
        "values": pa.list_(pa.string()),
        "probabilities": pa.list_(pa.float64()),
        "grid_indices": pa.list_(pa.int64()),
        "num_decimals": pa.int32(),
    }
)
"""``grid_indices`` and ``num_decimals`` say in integers what ``values`` says in strings, and are what is read back.
Strings that are no canonical decimals, of finite laws, have no indices and NO_DECIMALS."""


def write_output_spaces(path: Path, spaces: Mapping[str, OutputSpace]) -> None:
    names = list(spaces)
    options = {"compression": "zstd", "use_dictionary": ["prompt_id"], "write_page_checksum": True}
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, SCHEMA, **options) as writer:
        for start in range(0, len(names), SPACES_PER_ROW_GROUP):
            group = names[start : start + SPACES_PER_ROW_GROUP]
            writer.write_table(_rows(group, [spaces[name] for name in group]))


def _lists(arrays: Sequence[np.ndarray]) -> pa.ListArray:
    sizes = np.cumsum([0, *map(len, arrays)])
    return pa.ListArray.from_arrays(pa.array(sizes, pa.int32()), pa.array(np.concatenate(arrays)))


def _rows(names: Sequence[str], spaces: Sequence[OutputSpace]) -> pa.Table:
    texts, lengths, grids = [], [], []
    for space in spaces:
        if isinstance(space.values, FixedPointStrings):
            text, offsets = fixed_point_bytes(space.values.indices, space.values.num_decimals)
            texts.append(text)
            lengths.append(np.diff(offsets))
            grids.append(space.values)
        else:
            encoded = [value.encode() for value in space.values]
            texts.append(np.frombuffer(b"".join(encoded), dtype=np.uint8))
            lengths.append(np.array([len(value) for value in encoded]))
            grids.append(FixedPointStrings(np.empty(0, dtype=np.int64), NO_DECIMALS))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int32)
    strings = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(texts)))
    ends = pa.array(np.cumsum([0, *map(len, lengths)]), pa.int32())
    columns = [
        pa.array(names),
        pa.ListArray.from_arrays(ends, strings),
        _lists([space.probabilities for space in spaces]),
        _lists([grid.indices for grid in grids]),
        pa.array([grid.num_decimals for grid in grids], pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


class OutputSpaceStore(Mapping[str, OutputSpace]):
    """Output spaces by prompt id; strings are made where they are used. Raises ArtifactError."""

    def __init__(self, path: Path):
        columns = ("prompt_id", "probabilities", "grid_indices", "num_decimals")
        table = read_arrow(path, columns, only=True).combine_chunks()
        self._rows = {prompt_id: row for row, prompt_id in enumerate(table["prompt_id"].to_pylist())}
        self._decimals = table["num_decimals"].to_pylist()
        self._indices, self._probabilities = table["grid_indices"].chunk(0), table["probabilities"].chunk(0)
        self._texts: dict[str, list[str]] = {}
        if NO_DECIMALS in self._decimals:
            finite = pq.read_table(path, columns=["prompt_id", "values"], filters=[("num_decimals", "=", NO_DECIMALS)])
            self._texts = dict(zip(finite["prompt_id"].to_pylist(), finite["values"].to_pylist(), strict=True))

    def __getitem__(self, prompt_id: str) -> OutputSpace:
        row = self._rows[prompt_id]
        indices, probabilities = (
            column[row].values.to_numpy(zero_copy_only=True) for column in (self._indices, self._probabilities)
        )
        if prompt_id in self._texts:
            return OutputSpace(self._texts[prompt_id], probabilities)
        return OutputSpace(FixedPointStrings(indices, self._decimals[row]), probabilities)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
