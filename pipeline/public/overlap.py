"""Whether requests that a model is trained on have anything of a benchmark."""

import re
from collections.abc import Iterable, Set

RUN = 6  # words in a row that two texts have in common by copying alone


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def overlapping(requests: Iterable[str], texts: Iterable[str], options: Set[str] = frozenset()) -> list[str]:
    """The requests that share RUN words in a row with one of the texts, or have one of its ``options``, which are words
    in lower case."""
    known = {run for text in texts for run in _runs(_words(text))}
    split = {request: _words(request) for request in requests}
    return [request for request, words in split.items() if known & _runs(words) or options & set(words)]
