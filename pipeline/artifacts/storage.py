"""Artifacts on disk: one read/write pair per type, written atomically, checked when read.

Tables are Parquet with page checksums, flat arrays are ``.npy`` files behind a manifest
with sizes and SHA-256, everything else is JSON or safetensors. Nothing is pickled.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.artifacts.atomic import atomic_directory, atomic_path, recover
from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.family import Law
from pipeline.core.laws.fixed_point import FixedPointStrings, fixed_point_bytes
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.errors import ArtifactError, StorageError


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of a JSON-serialisable value with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def require(path: Path) -> Path:
    """Return ``path``, finishing what a killed run may have begun; raise ArtifactError if there is nothing there."""
    for missing in (path.parent, path):
        if not missing.exists() and missing.parent.exists():
            with contextlib.suppress(OSError):
                recover(missing)
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


def _read_arrow(path: Path, columns: Sequence[str], only: bool = False) -> pa.Table:
    """Read a table that must have ``columns``; with ``only``, leave its other columns unread."""
    try:
        with pq.ParquetFile(require(path), page_checksum_verification=True) as file:
            found = file.schema_arrow.names
            missing = [column for column in columns if column not in found]
            if not missing:
                return file.read(list(columns) if only else None)
    except PermissionError as error:
        raise StorageError(errno.EACCES, str(path)) from error
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError(f"{path} is truncated or not a Parquet file ({str(error).splitlines()[0]})") from None
    raise ArtifactError(f"{path} has no column {missing[0]!r}; its columns are {found}")


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a Parquet table and check its pages and columns. Raises ArtifactError."""
    return _read_arrow(path, columns).to_pandas()


def rows_by_prompt(path: Path, columns: Sequence[str], prompt_ids: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Rows of a table by prompt, in the table's order. Raises ArtifactError for a prompt without any."""
    rows = dict(iter(read_table(path, columns).groupby("prompt_id")))
    for prompt_id in prompt_ids:
        if prompt_id not in rows:
            raise ArtifactError(f"{path} has no rows for the prompt {prompt_id}")
    return rows


# Bounds the memory of writing: 64 prompts at 16,384 bins are about 40 MB.
SPACES_PER_ROW_GROUP = 64

PROMPT_COLUMNS = (
    "prompt_id",
    "split",
    "family",
    "tier",
    "parameters",
    "prompt",
    "scipy_name",
    "scipy_kwargs",
    "support_lower",
    "support_upper",
    "integer",
)


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write one split's prompts."""
    rows = [
        (
            prompt.prompt_id,
            prompt.split,
            prompt.family,
            prompt.tier,
            json.dumps(prompt.parameters),
            prompt.text,
            prompt.law.scipy_name,
            json.dumps(dict(prompt.law.scipy_kwargs)),
            *prompt.support,
            prompt.law.integer,
        )
        for prompt in prompts
    ]
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


TEXT_PROMPT_COLUMNS = ("prompt_id", "split", "category", "prompt")


def write_text_prompts(path: Path, prompts: Sequence[TextPrompt]) -> None:
    """Write the prompts of an axis whose answers are text."""
    rows = [(prompt.prompt_id, prompt.split, prompt.category, prompt.text) for prompt in prompts]
    write_table(path, pd.DataFrame(rows, columns=list(TEXT_PROMPT_COLUMNS)))


def read_text_prompts(*paths: Path) -> list[TextPrompt]:
    """Read text prompts, in file order."""
    tables = [read_table(path, TEXT_PROMPT_COLUMNS)[list(TEXT_PROMPT_COLUMNS)] for path in paths]
    return [TextPrompt(*row) for table in tables for row in table.itertuples(index=False, name=None)]


def read_requests(*paths: Path) -> list[TextPrompt]:
    """The requests of any prompt tables, in file order; of structured ones the law is left unread."""
    tables = [read_table(path, ("prompt_id", "split", "prompt")) for path in paths]
    rows = (row for table in tables for row in table[["prompt_id", "split", "prompt"]].itertuples(index=False))
    return [TextPrompt(row.prompt_id, row.split, "", row.prompt) for row in rows]


def write_output_spaces(path: Path, spaces: Mapping[str, OutputSpace]) -> None:
    """Write the output space of each prompt id.

    ``values`` are the strings; ``grid_indices`` and ``num_decimals`` say the same in
    integers, which is what the pipeline reads back.
    """
    schema = pa.schema(
        {
            "prompt_id": pa.string(),
            "values": pa.list_(pa.string()),
            "probabilities": pa.list_(pa.float64()),
            "grid_indices": pa.list_(pa.int64()),
            "num_decimals": pa.int32(),
        }
    )
    names = list(spaces)
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(
            temporary, schema, compression="zstd", use_dictionary=["prompt_id"], write_page_checksum=True
        ) as writer,
    ):
        for start in range(0, len(names), SPACES_PER_ROW_GROUP):
            group = names[start : start + SPACES_PER_ROW_GROUP]
            writer.write_table(_output_space_rows(group, [spaces[name] for name in group], schema))


def _output_space_rows(names: Sequence[str], spaces: Sequence[OutputSpace], schema: pa.Schema) -> pa.Table:
    ends = pa.array(np.cumsum([0, *(len(space.values) for space in spaces)]), pa.int32())
    texts, lengths = [], []
    for space in spaces:
        text, offsets = fixed_point_bytes(space.values.indices, space.values.num_decimals)
        texts.append(text)
        lengths.append(np.diff(offsets))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int32)
    strings = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(texts)))

    def lists(arrays: list[np.ndarray]) -> pa.ListArray:
        return pa.ListArray.from_arrays(ends, pa.array(np.concatenate(arrays)))

    columns = [
        pa.array(names),
        pa.ListArray.from_arrays(ends, strings),
        lists([space.probabilities for space in spaces]),
        lists([space.values.indices for space in spaces]),
        pa.array([space.values.num_decimals for space in spaces], pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


class OutputSpaceStore(Mapping[str, OutputSpace]):
    """Output spaces by prompt id. Strings are made where they are used, the rest stays in Arrow's memory."""

    def __init__(self, path: Path):
        """Open a table written by ``write_output_spaces``. Raises ArtifactError."""
        columns = ("prompt_id", "probabilities", "grid_indices", "num_decimals")
        table = _read_arrow(path, columns, only=True).combine_chunks()
        self._rows = {prompt_id: row for row, prompt_id in enumerate(table["prompt_id"].to_pylist())}
        self._decimals = table["num_decimals"].to_pylist()
        self._indices, self._probabilities = table["grid_indices"].chunk(0), table["probabilities"].chunk(0)

    def __getitem__(self, prompt_id: str) -> OutputSpace:
        row = self._rows[prompt_id]
        indices, probabilities = (
            column[row].values.to_numpy(zero_copy_only=True) for column in (self._indices, self._probabilities)
        )
        return OutputSpace(FixedPointStrings(indices, self._decimals[row]), probabilities)

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
                raise ArtifactError(
                    f"{path} has {path.stat().st_size} bytes, its manifest says "
                    f"{manifest['files'][name]['bytes']}; it is truncated"
                )
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


def _reserve(path: Path) -> None:
    """Give a file its blocks: writing to a mapped page for which the disk has no room would kill the process."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def write_tries(directory: Path, tries: Mapping[str, Trie], terminator: int) -> None:
    """Write tries as flat ``.npy`` arrays with a manifest (sizes, SHA-256, prompt ids, terminator)."""
    members = list(tries.values())
    with atomic_directory(directory) as temporary:
        files = {}
        for name in TrieStore.ARRAYS:
            path = temporary / f"{name}.npy"
            if name.endswith("_starts"):
                sizes = [trie.num_prefixes if name == "prefix_starts" else trie.num_edges for trie in members]
                np.save(path, np.cumsum([0, *sizes]), allow_pickle=False)
            else:
                parts = [getattr(trie, name) for trie in members]
                # Filled in place: a concatenation would hold the largest array twice.
                array = np.lib.format.open_memmap(path, "w+", parts[0].dtype, (sum(map(len, parts)),))
                _reserve(path)
                np.concatenate(parts, out=array)
                array.flush()
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        manifest = {"kind": "explicit", "terminator": terminator, "prompt_ids": list(tries), "files": files}
        write_json(temporary / "manifest.json", manifest)


class ImplicitTrieStore(Mapping[str, ImplicitTrie]):
    """Implicit tries by prompt id: nothing but the laws and the tokenizer's digit rule is stored."""

    def __init__(self, manifest: Mapping[str, Any]):
        """From the content of a manifest written by ``write_implicit_tries``."""
        rule = manifest["digit_tokens"]
        groups = tuple(np.array(group, dtype=np.int32) for group in rule["groups"])
        self.terminator: int = manifest["terminator"]
        self._tokens = DigitTokens(groups, rule["minus"], rule["point"], self.terminator)
        self._num_decimals, self._laws = manifest["num_decimals"], manifest["laws"]
        self._opened: dict[str, ImplicitTrie] = {}

    def __getitem__(self, prompt_id: str) -> ImplicitTrie:
        if prompt_id not in self._opened:
            law = Law(*self._laws[prompt_id])
            self._opened[prompt_id] = ImplicitTrie(rounded_law(law, self._num_decimals), self._tokens)
        return self._opened[prompt_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._laws)

    def __len__(self) -> int:
        return len(self._laws)


def write_implicit_tries(directory: Path, prompts: Sequence[Prompt], num_decimals: int, tokens: DigitTokens) -> None:
    """Write what determines the implicit tries of prompts under one tokenizer."""
    manifest = {
        "kind": "implicit",
        "terminator": tokens.terminator,
        "num_decimals": num_decimals,
        "digit_tokens": {
            "minus": tokens.minus,
            "point": tokens.point,
            "groups": [group.tolist() for group in tokens.groups],
        },
        "laws": {prompt.prompt_id: [prompt.law.scipy_name, dict(prompt.law.scipy_kwargs)] for prompt in prompts},
    }
    with atomic_directory(directory) as temporary:
        write_json(temporary / "manifest.json", manifest)


def open_tries(directory: Path) -> TrieStore | ImplicitTrieStore:
    """The tries in a directory, explicit or implicit. Raises ArtifactError."""
    manifest = read_json(directory / "manifest.json")
    return ImplicitTrieStore(manifest) if manifest.get("kind") == "implicit" else TrieStore(directory)


GENERATION_COLUMNS = ("prompt_id", "sample_index", "seed", "text", "num_tokens", "finish_reason")
SCORE_COLUMNS = ("prompt_id", "target", "path_index", "prefix_index", "kl_nats")
# One row per prompt; figures over the trie are empty where it was too large, bounds where there is no digit rule.
EXACT_COLUMNS = (
    "prompt_id",
    "num_prefixes",
    "sequence_kl_nats",
    "logit_kl_nats",
    "total_variation",
    "mass_on_trie",
    "grid_wasserstein_1",
    "grid_ks",
    "grid_ks_low",
    "grid_ks_high",
    "constrained_total_variation",
    "constrained_wasserstein_1_normalised",
    "wasserstein_1_low",
    "wasserstein_1_high",
    "ks_low",
    "ks_high",
    "support_low",
    "support_high",
    "valid_low",
    "valid_high",
    "mass_outside",
    "mass_open",
    "positions",
)
METRIC_COLUMNS = (
    "axis",
    "model",
    "condition",
    "split",
    "family",
    "metric",
    "value",
    "n",
    "ci_low",
    "ci_high",
    "floor",
    "provenance",
)
