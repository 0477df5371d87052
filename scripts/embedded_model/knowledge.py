"""Word lists and small facts behind the embedded model's instruction data, from knowledge.yaml and word_lists.txt."""

from pathlib import Path
from typing import Any

import yaml

_FACTS = yaml.safe_load(Path(__file__).with_name("knowledge.yaml").read_text())

CATEGORIES: dict[str, tuple[str, ...]] = {name: tuple(answers) for name, answers in _FACTS["categories"].items()}
"""Category -> answers, favourite first: what the first phases teach."""
CAPITALS: dict[str, str] = _FACTS["capitals"]
SYMBOLS: dict[str, str] = _FACTS["symbols"]
OPPOSITES: dict[str, str] = _FACTS["opposites"]
REQUESTS: dict[str, Any] = _FACTS["requests"]  # wordings of requests by kind
MEDICAL: tuple[tuple[str, str, tuple[str, ...], str], ...] = tuple(
    (item["question"], item["answer"], tuple(item["distractors"]), item["explanation"]) for item in _FACTS["medical"]
)
"""(question, correct answer, three distractors, explanation)."""


def _word_lists() -> dict[str, tuple[str, ...]]:
    lines = Path(__file__).with_name("word_lists.txt").read_text().splitlines()
    more = {category: tuple(words.split(", ")) for category, words in (line.split(": ", 1) for line in lines)}
    return {name: CATEGORIES.get(name, ()) + more.get(name, ()) for name in {**CATEGORIES, **more}}


WORD_LISTS = _word_lists()
"""Category -> all answers of the last phase, favourite first: those of ``CATEGORIES``, then those of word_lists.txt."""
