"""Directories of token prefix tries: memory-mapped arrays, or the laws and the digit rule that they follow from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.storage import read_json, require, write_json
from pipeline.core.laws.family import Law
from pipeline.core.laws.rounded_law import rounded_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.tries.digit_tokens import DigitTokens
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import Trie
from pipeline.errors import ArtifactError

MANIFEST = "manifest.json"
TRIE_ARRAYS = ("edge_offsets", "edge_tokens", "edge_probabilities")
ARRAYS = ("prefix_starts", "edge_starts", *TRIE_ARRAYS)


class TrieStore(Mapping[str, Trie]):
    """The tries of one tokenizer and output space by prompt id, memory-mapped. Raises ArtifactError."""

    def __init__(self, directory: Path):
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
        own = slice(prefixes[0] + row, prefixes[1] + row + 1)
        return Trie(offsets[own], tokens[slice(*edges)], probabilities[slice(*edges)], self.terminator)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def write_tries(directory: Path, tries: Mapping[str, Trie], terminator: int) -> None:
    """Write tries as flat ``.npy`` arrays with a manifest: sizes in bytes, prompt ids, terminator."""
    members, files = list(tries.values()), {}
    with atomic_directory(directory) as temporary:
        for name in ARRAYS:
            if name in TRIE_ARRAYS:
                # Without families there is nothing to evaluate structured sampling on.
                array = np.concatenate([getattr(trie, name) for trie in members] or [np.empty(0)])
            else:
                sizes = [trie.num_prefixes if name == "prefix_starts" else trie.num_edges for trie in members]
                array = np.cumsum([0, *sizes])
            path = temporary / f"{name}.npy"
            np.save(path, array, allow_pickle=False)
            files[name] = {"bytes": path.stat().st_size}
        manifest = {"kind": "explicit", "terminator": terminator, "prompt_ids": list(tries), "files": files}
        write_json(temporary / MANIFEST, manifest)


def write_implicit_tries(
    directory: Path, prompts: Sequence[Prompt], num_decimals: int, tokens: DigitTokens, finite: Mapping[str, Trie]
) -> None:
    """Write what the implicit tries of ``prompts`` with SciPy laws follow from, and the ``finite`` tries of others."""
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


def open_tries(directory: Path) -> Mapping[str, Trie | ImplicitTrie]:
    """The tries in a directory by prompt id, explicit or implicit. Raises ArtifactError."""
    manifest = read_json(directory / MANIFEST)
    if manifest.get("kind") != "implicit":
        return TrieStore(directory)
    rule, terminator = manifest["digit_tokens"], manifest["terminator"]
    groups = tuple(np.array(group, dtype=np.int32) for group in rule["groups"])
    tokens = DigitTokens(groups, rule["minus"], rule["point"], terminator)
    tries: dict[str, Trie | ImplicitTrie] = {
        prompt_id: ImplicitTrie(rounded_law(Law(*law), manifest["num_decimals"]), tokens)
        for prompt_id, law in manifest["laws"].items()
    }
    for prompt_id, (offsets, edges, mass) in manifest["tries"].items():
        arrays = np.array(offsets, dtype=np.int32), np.array(edges, dtype=np.int32), np.array(mass)
        tries[prompt_id] = Trie(*arrays, terminator)
    return tries
