"""Perturbations of a request: from templates, or by a genetic algorithm over a lexicon (GAAP, arXiv:2506.09684)."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import DomainError

Lexicon = Mapping[str, Sequence[str]]
"""What may stand for a word, in lower case; the empty text deletes it."""
Closeness = Callable[[Sequence[str]], np.ndarray]
"""float64[k] in [0, 1] of k texts: how similar each is to the request."""
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
RELATIONS = ("synonyms", "hypernyms", "hyponyms")
MOST_GENERATIONS = 100
"""Where crossover and mutation find next to nothing new."""


@dataclass(frozen=True)
class GeneticSearch:
    """Settings of ``genetic_perturbations``.

    Attributes:
        population: Different texts after which the search stops.
        mutation_rate: Probability that one keyword of a child is substituted anew.
        least_similarity: The search stops at the first generation whose mean similarity to the request is lower.
    """

    population: int
    mutation_rate: float
    least_similarity: float


def templated(text: str, templates: Sequence[str], number: int) -> tuple[str, ...]:
    """The request in the first ``number`` templates, whose {prompt} stands for it."""
    return tuple(template.replace("{prompt}", text) for template in templates[:number])


def substitutions(entry: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What stands for a word: its synonyms, hypernyms and hyponyms, each once, then its deletion."""
    words = dict.fromkeys(word for relation in RELATIONS for word in entry.get(relation, ()))
    return (*words, "")


def lexicon_keywords(words: Sequence[str], lexicon: Lexicon) -> list[int]:
    """Places of the words that the lexicon has: the rule where no model picks keywords."""
    return [place for place, word in enumerate(words) if word.lower() in lexicon]


def genetic_perturbations(
    text: str,
    lexicon: Lexicon,
    closeness: Closeness,
    number: int,
    settings: GeneticSearch,
    rng: np.random.Generator,
    keywords: Callable[[Sequence[str], Lexicon], list[int]] = lexicon_keywords,
) -> tuple[str, ...]:
    """Texts close to a request, drawn uniformly over the generations of a genetic algorithm (GAAP).

    An individual is one choice for each keyword: the word itself or one of its substitutions. The first generation has
    one substitution each; parents of the next are drawn by roulette over similarity to the request, their children cut
    at one point and, at times, mutated in one keyword.

    Args:
        text: The request.
        lexicon: Substitutions by keyword.
        closeness: Similarity to the request.
        number: Texts to draw; fewer where there are fewer.
        settings: Of the search.
        rng: Of all draws.
        keywords: Places of the keywords among the request's words; of these the lexicon must have each.

    Returns:
        Different texts, none of them the request.

    Raises:
        DomainError: The lexicon has no keyword of the request, or the first generation is too far from it.
    """
    found = list(_WORD.finditer(text))
    places = keywords([match.group() for match in found], lexicon)
    spans = [found[place].span() for place in places]
    choices = [lexicon[found[place].group().lower()] for place in places]
    if not choices:
        raise DomainError("none of its words is in the lexicon")
    seen: set[str] = {text}
    generations: list[list[str]] = []
    children = [
        tuple(own if other == place else 0 for other in range(len(choices)))
        for place, texts in enumerate(choices)
        for own in range(1, len(texts) + 1)
    ]
    for _ in range(MOST_GENERATIONS):
        new = {_spelled(text, spans, choices, child): child for child in children}
        new = {spelled: child for spelled, child in new.items() if spelled not in seen}
        # ``seen`` has the request as well.
        new = dict(itertools.islice(new.items(), settings.population + 1 - len(seen)))
        if new:
            weights = closeness(list(new))
            if weights.mean() < settings.least_similarity:
                break
            seen |= set(new)
            generations.append(list(new))
            parents = list(new.values())
        if not generations or len(seen) > settings.population:
            break
        children = _children(parents, weights, [len(texts) for texts in choices], settings.mutation_rate, rng)
    if not generations:
        raise DomainError(f"with one word substituted it is less similar to itself than {settings.least_similarity:g}")
    return _drawn(generations, number, rng)


def _spelled(text: str, spans: Sequence[tuple[int, int]], choices: Sequence[Sequence[str]], own: Sequence[int]) -> str:
    """The request with the chosen substitutions, and the white space around deleted words closed."""
    parts, end = [], 0
    for (start, stop), texts, choice in zip(spans, choices, own, strict=True):
        word = text[start:stop]
        chosen = word if choice == 0 else texts[choice - 1]
        if choice and word[:1].isupper():
            chosen = chosen[:1].upper() + chosen[1:]
        parts += [text[end:start], chosen]
        end = stop
    return re.sub(r"\s+([?.!,;:])", r"\1", " ".join("".join([*parts, text[end:]]).split()))


def _children(
    parents: Sequence[tuple[int, ...]],
    weights: np.ndarray,
    sizes: Sequence[int],
    mutation_rate: float,
    rng: np.random.Generator,
) -> list[tuple[int, ...]]:
    """As many children as parents: roulette selection, one-point crossover, mutation of one keyword."""
    law = np.full(len(parents), 1 / len(parents)) if weights.sum() <= 0 else weights / weights.sum()
    children = []
    for first, second in rng.choice(len(parents), size=(len(parents), 2), p=law):
        cut = int(rng.integers(1, len(sizes))) if len(sizes) > 1 else 0
        child = [*parents[first][:cut], *parents[second][cut:]]
        if rng.random() < mutation_rate:
            place = int(rng.integers(len(sizes)))
            child[place] = int(rng.integers(sizes[place] + 1))
        children.append(tuple(child))
    return children


def _drawn(generations: Sequence[Sequence[str]], number: int, rng: np.random.Generator) -> tuple[str, ...]:
    """A generation is drawn uniformly, then a member of it, each at most once."""
    left = [list(members) for members in generations]
    drawn: list[str] = []
    while len(drawn) < number and (open_ones := [members for members in left if members]):
        members = open_ones[int(rng.integers(len(open_ones)))]
        drawn.append(members.pop(int(rng.integers(len(members)))))
    return tuple(drawn)
