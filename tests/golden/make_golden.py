"""Write ``structured.json``: values that the tests hold the prompts, output spaces and tries to.

They were equal to an independent implementation's when first written. Run this only
after a deliberate change of the definition: ``python -m tests.golden.make_golden``.
"""

import hashlib
import json
from pathlib import Path

from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.trie import build_trie

PATH = Path(__file__).with_name("structured.json")
SPLITS = {
    "train": ("train", "full"),
    "unseen_full": ("unseen", "full"),
    "ood_full": ("ood", "full"),
    "unseen_selected": ("unseen", "selected"),
    "ood_selected": ("ood", "selected"),
}
SETTINGS = ((5, 1001), (3, 1001), (5, 16384))


def digest(lines: list[str]) -> str:
    """SHA-256 of lines joined by newlines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def byte_sequences(values: list[str]) -> list[list[int]]:
    """One token per character: its code point."""
    return [[ord(character) for character in value] for value in values]


def golden_values() -> dict:
    """All golden values, computed by the pipeline as it is."""
    prompts = {name: build_split(split, selection=selection) for name, (split, selection) in SPLITS.items()}
    spaces = []
    for prompt in [*prompts["unseen_selected"], *prompts["ood_selected"]]:
        for num_decimals, max_bins in SETTINGS:
            space = discretize(prompt.law, num_decimals=num_decimals, max_bins=max_bins)
            trie = build_trie(byte_sequences(space.values), space.probabilities, terminator=0)
            kept = sorted({0, 1, len(space.values) // 3, len(space.values) - 1})
            spaces.append(
                {
                    "prompt": prompt.text,
                    "num_decimals": num_decimals,
                    "max_bins": max_bins,
                    "size": len(space.values),
                    "values_sha256": digest(space.values),
                    "at": {space.values[index]: float(space.probabilities[index]) for index in kept},
                    "num_prefixes": trie.num_prefixes,
                    "num_edges": trie.num_edges,
                }
            )
    return {
        "counts": {name: len(members) for name, members in prompts.items()},
        "prompts_sha256": {name: digest(sorted(p.text for p in members)) for name, members in prompts.items()},
        "output_spaces": spaces,
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(golden_values(), indent=1) + "\n")
