"""Artifacts on disk: one read/write pair per type, written atomically, checked when read.

Tables are Parquet with page checksums, flat arrays are ``.npy`` files behind a manifest
with sizes and SHA-256, everything else is JSON or safetensors. Nothing is pickled.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.discretize import OutputSpace
from pipeline.core.family import Law
from pipeline.core.prompts import Prompt
from pipeline.core.trie import Trie
from pipeline.errors import ArtifactError


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and move it there on success.

    A failure or a kill leaves whatever ``path`` held before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory beside ``path`` and put it in its place on success."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    temporary.chmod(0o755)
    try:
        yield temporary
        retired = temporary.with_name(temporary.name + ".old")
        if path.exists():
            os.replace(path, retired)
        os.replace(temporary, path)
        shutil.rmtree(retired, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def atomic_entries(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory whose entries replace those of the same name in ``directory`` on success.

    Other entries of ``directory`` stay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=directory, prefix=".new."))
    try:
        yield temporary
        for entry in sorted(temporary.iterdir()):
            if entry.is_dir() and (directory / entry.name).exists():
                os.replace(directory / entry.name, temporary / f".old.{entry.name}")
            os.replace(entry, directory / entry.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of a JSON-serialisable value with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def require(path: Path) -> Path:
    """Return ``path``; raise ArtifactError if there is nothing there."""
    if not path.exists():
        raise ArtifactError(f"{path} does not exist; `dvc repro` builds it")
    return path


def write_json(path: Path, value: Any) -> None:
    """Write JSON; NaN is not allowed (an undefined number is null)."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON. Raises ArtifactError naming a missing or truncated file."""
    try:
        return json.loads(require(path).read_text())
    except ValueError as error:
        raise ArtifactError(f"{path} is not complete JSON ({error})") from None


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a Parquet table with page checksums."""
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False, write_page_checksum=True)


def _read_arrow(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        table = pq.read_table(require(path), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError(f"{path} is truncated or not a Parquet file ({str(error).splitlines()[0]})") from None
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ArtifactError(f"{path} has no column {missing[0]!r}; its columns are {table.column_names}")
    return table


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a Parquet table and check its pages and columns. Raises ArtifactError."""
    return _read_arrow(path, columns).to_pandas()


PROMPT_COLUMNS = (
    "prompt_id", "split", "family", "tier", "parameters", "prompt", "scipy_name", "scipy_kwargs",
    "support_lower", "support_upper", "integer",
)  # fmt: skip


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write one split's prompts."""
    rows = [
        (
            prompt.prompt_id, prompt.split, prompt.family, prompt.tier, json.dumps(prompt.parameters), prompt.text,
            prompt.law.scipy_name, json.dumps(dict(prompt.law.scipy_kwargs)), *prompt.support, prompt.law.integer,
        )
        for prompt in prompts
    ]  # fmt: skip
    write_table(path, pd.DataFrame(rows, columns=list(PROMPT_COLUMNS)))


def read_prompts(*paths: Path) -> list[Prompt]:
    """Read prompts of one or several splits, in file order."""
    prompts = []
    for path in paths:
        for row in read_table(path, PROMPT_COLUMNS).itertuples():
            law = Law(row.scipy_name, json.loads(row.scipy_kwargs))
            prompts.append(
                Prompt(row.prompt_id, row.split, row.family, row.tier, json.loads(row.parameters), row.prompt, law)
            )
    return prompts


def write_output_spaces(path: Path, spaces: Mapping[str, OutputSpace]) -> None:
    """Write the output space of each prompt id."""
    write_table(
        path,
        pd.DataFrame(
            {
                "prompt_id": list(spaces),
                "values": [space.values for space in spaces.values()],
                "probabilities": [space.probabilities for space in spaces.values()],
            }
        ),
    )


class ArrowStrings(Sequence[str]):
    """Strings that stay in Arrow's memory until one is asked for."""

    def __init__(self, array: pa.StringArray):
        self._array = array

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._array[index].to_pylist()
        return self._array[index].as_py()

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._array.to_pylist())


class OutputSpaceStore(Mapping[str, OutputSpace]):
    """Output spaces by prompt id; strings become Python objects only where they are used.

    32 million strings (1,988 prompts at 16,384 bins) are about 0.6 GB here and 3 GB as a list.
    """

    def __init__(self, path: Path):
        """Open a table written by ``write_output_spaces``. Raises ArtifactError."""
        table = _read_arrow(path, ("prompt_id", "values", "probabilities")).combine_chunks()
        self._rows = {prompt_id: row for row, prompt_id in enumerate(table["prompt_id"].to_pylist())}
        self._values, self._probabilities = table["values"].chunk(0), table["probabilities"].chunk(0)

    def __getitem__(self, prompt_id: str) -> OutputSpace:
        row = self._rows[prompt_id]
        return OutputSpace(
            ArrowStrings(self._values[row].values), self._probabilities[row].values.to_numpy(zero_copy_only=True)
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class TrieStore(Mapping[str, Trie]):
    """The tries of one tokenizer and output space by prompt id, memory-mapped."""

    ARRAYS = ("prefix_starts", "edge_starts", "edge_offsets", "edge_tokens", "edge_probabilities")

    def __init__(self, directory: Path):
        """Open a directory written by ``write_tries``. Raises ArtifactError."""
        manifest = read_json(directory / "manifest.json")
        self.terminator: int = manifest["terminator"]
        self._rows = {prompt_id: row for row, prompt_id in enumerate(manifest["prompt_ids"])}
        self._arrays = {}
        for name in self.ARRAYS:
            path = require(directory / f"{name}.npy")
            if path.stat().st_size != manifest["files"][name]["bytes"]:
                raise ArtifactError(f"{path} has {path.stat().st_size} bytes, its manifest says "
                                    f"{manifest['files'][name]['bytes']}; it is truncated")  # fmt: skip
            self._arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)

    def __getitem__(self, prompt_id: str) -> Trie:
        row = self._rows[prompt_id]
        arrays = self._arrays
        prefixes = slice(int(arrays["prefix_starts"][row]) + row, int(arrays["prefix_starts"][row + 1]) + row + 1)
        edges = slice(int(arrays["edge_starts"][row]), int(arrays["edge_starts"][row + 1]))
        return Trie(
            arrays["edge_offsets"][prefixes],
            arrays["edge_tokens"][edges],
            arrays["edge_probabilities"][edges],
            self.terminator,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def write_tries(directory: Path, tries: Mapping[str, Trie], terminator: int) -> None:
    """Write tries as flat ``.npy`` arrays with a manifest (sizes, SHA-256, prompt ids, terminator)."""
    arrays = {
        "prefix_starts": np.cumsum([0, *(trie.num_prefixes for trie in tries.values())]),
        "edge_starts": np.cumsum([0, *(trie.num_edges for trie in tries.values())]),
        **{
            name: np.concatenate([getattr(trie, name) for trie in tries.values()])
            for name in ("edge_offsets", "edge_tokens", "edge_probabilities")
        },
    }
    with atomic_directory(directory) as temporary:
        files = {}
        for name, array in arrays.items():
            path = temporary / f"{name}.npy"
            np.save(path, array, allow_pickle=False)
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        write_json(temporary / "manifest.json", {"terminator": terminator, "prompt_ids": list(tries), "files": files})


GENERATION_COLUMNS = ("prompt_id", "sample_index", "seed", "text", "num_tokens", "finish_reason")
SCORE_COLUMNS = ("prompt_id", "path_index", "prefix_index", "kl_nats")
METRIC_COLUMNS = (
    "axis", "model", "condition", "split", "family", "metric", "value", "n", "ci_low", "ci_high", "floor",
    "provenance",
)  # fmt: skip
