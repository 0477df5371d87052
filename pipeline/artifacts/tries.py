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

MANIFEST = "manifest.json"
ARRAYS = ("prefix_starts", "edge_starts", "edge_offsets", "edge_tokens", "edge_probabilities")
TRIE_ARRAYS = ARRAYS[2:]


class TrieStore(Mapping[str, Trie]):
    """The tries of one tokenizer and output space by prompt id, memory-mapped."""

    def __init__(self, directory: Path):
        """Open a directory written by ``write_tries``. Raises ArtifactError."""
        manifest = read_json(directory / MANIFEST)
        self.terminator: int = manifest["terminator"]
        self._rows = {prompt_id: row for row, prompt_id in enumerate(manifest["prompt_ids"])}
        self._arrays = {}
        for name in ARRAYS:
            path = require(directory / f"{name}.npy")
            size, expected = path.stat().st_size, manifest["files"][name]["bytes"]
            if size != expected:
                raise ArtifactError(f"{path} has {size} bytes, its manifest says {expected}; it is truncated")
            self._arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)

    def __getitem__(self, prompt_id: str) -> Trie:
        row = self._rows[prompt_id]
        prefixes, edges = (self._arrays[name][row : row + 2].tolist() for name in ARRAYS[:2])
        offsets, tokens, probabilities = (self._arrays[name] for name in TRIE_ARRAYS)
        # A trie of n prefixes has n + 1 offsets.
        return Trie(
            offsets[prefixes[0] + row : prefixes[1] + row + 1],
            tokens[slice(*edges)],
            probabilities[slice(*edges)],
            self.terminator,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def write_tries(directory: Path, tries: Mapping[str, Trie], terminator: int) -> None:
    """Write tries as flat ``.npy`` arrays with a manifest (sizes, SHA-256, prompt ids, terminator)."""
    members, files = list(tries.values()), {}
    with atomic_directory(directory) as temporary:
        for name in ARRAYS:
            path = temporary / f"{name}.npy"
            if name in TRIE_ARRAYS:
                parts = [getattr(trie, name) for trie in members]
                # Filled in place: a concatenation would hold the largest array twice.
                array = np.lib.format.open_memmap(path, "w+", parts[0].dtype, (sum(map(len, parts)),))
                if hasattr(os, "posix_fallocate"):  # not on macOS
                    # Writing to a mapped page for which the disk has no room would kill the process.
                    with path.open("rb+") as file:
                        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
                np.concatenate(parts, out=array)
                array.flush()
            else:
                sizes = [trie.num_prefixes if name == "prefix_starts" else trie.num_edges for trie in members]
                np.save(path, np.cumsum([0, *sizes]), allow_pickle=False)
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        manifest = {"kind": "explicit", "terminator": terminator, "prompt_ids": list(tries), "files": files}
        write_json(temporary / MANIFEST, manifest)


class ImplicitTrieStore(Mapping[str, ImplicitTrie | Trie]):
    """Implicit tries by prompt id, of which the laws and the digit rule are stored, and the tries of finite laws."""

    def __init__(self, manifest: Mapping[str, Any]):
        """From the content of a manifest written by ``write_implicit_tries``."""
        rule, self.terminator = manifest["digit_tokens"], manifest["terminator"]
        groups = tuple(np.array(group, dtype=np.int32) for group in rule["groups"])
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
    directory: Path, prompts: Sequence[Prompt], num_decimals: int, tokens: DigitTokens, finite: Mapping[str, Trie]
) -> None:
    """Write what the implicit tries of prompts with a SciPy law follow from, and the ``finite`` tries of the others."""
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
        "tries": {name: [getattr(trie, array).tolist() for array in TRIE_ARRAYS] for name, trie in finite.items()},
    }
    with atomic_directory(directory) as temporary:
        write_json(temporary / MANIFEST, manifest)


def open_tries(directory: Path) -> TrieStore | ImplicitTrieStore:
    """The tries in a directory, explicit or implicit. Raises ArtifactError."""
    manifest = read_json(directory / MANIFEST)
    return ImplicitTrieStore(manifest) if manifest.get("kind") == "implicit" else TrieStore(directory)
