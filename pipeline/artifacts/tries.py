"""Directories of token prefix tries: memory-mapped arrays, or the laws and the digit rule that they follow from."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import read_json, require, sha256_file, write_json
from pipeline.core.laws.family import Law
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.errors import ArtifactError


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


class ImplicitTrieStore(Mapping[str, ImplicitTrie | Trie]):
    """Implicit tries by prompt id: nothing but the laws and the tokenizer's digit rule is stored.

    Of finite laws the manifest has the tries themselves.
    """

    def __init__(self, manifest: Mapping[str, Any]):
        """From the content of a manifest written by ``write_implicit_tries``."""
        rule = manifest["digit_tokens"]
        groups = tuple(np.array(group, dtype=np.int32) for group in rule["groups"])
        self.terminator: int = manifest["terminator"]
        self._tokens = DigitTokens(groups, rule["minus"], rule["point"], self.terminator)
        self._num_decimals, self._laws = manifest["num_decimals"], manifest["laws"]
        self._opened: dict[str, ImplicitTrie | Trie] = {
            prompt_id: Trie(
                np.array(offsets, dtype=np.int32), np.array(edges, dtype=np.int32), np.array(mass), self.terminator
            )
            for prompt_id, (offsets, edges, mass) in manifest.get("tries", {}).items()
        }

    def __getitem__(self, prompt_id: str) -> ImplicitTrie | Trie:
        if prompt_id not in self._opened:
            law = Law(*self._laws[prompt_id])
            self._opened[prompt_id] = ImplicitTrie(rounded_law(law, self._num_decimals), self._tokens)
        return self._opened[prompt_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._laws | self._opened)

    def __len__(self) -> int:
        return len(self._laws | self._opened)


def write_implicit_tries(
    directory: Path,
    prompts: Sequence[Prompt],
    num_decimals: int,
    tokens: DigitTokens,
    finite: Mapping[str, Trie] | None = None,
) -> None:
    """Write what determines the implicit tries of prompts under one tokenizer.

    Args:
        directory: Where to.
        prompts: Those with a SciPy law.
        num_decimals: Decimals that their laws are rounded to.
        tokens: The tokenizer's digit rule.
        finite: Tries of the other prompts.
    """
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
    if finite:
        manifest["tries"] = {
            name: [array.tolist() for array in (trie.edge_offsets, trie.edge_tokens, trie.edge_probabilities)]
            for name, trie in finite.items()
        }
    with atomic_directory(directory) as temporary:
        write_json(temporary / "manifest.json", manifest)


def open_tries(directory: Path) -> TrieStore | ImplicitTrieStore:
    """The tries in a directory, explicit or implicit. Raises ArtifactError."""
    manifest = read_json(directory / "manifest.json")
    return ImplicitTrieStore(manifest) if manifest.get("kind") == "implicit" else TrieStore(directory)
