"""Perturbations: templates, and the genetic algorithm's operators, stops and draws."""

import json

import numpy as np
import pytest

from pipeline.core.semantics import perturbation
from pipeline.core.semantics.perturbation import GeneticSearch, genetic_perturbations, substitutions, templated
from pipeline.errors import ArtifactError, DomainError
from pipeline.sources.lexicon import read_lexicon
from tests.conftest import ROOT

LEXICON = {"capital": ("seat", "city", ""), "what": ("which", ""), "big": ("large", "huge", "vast", "")}
TEXT = "What is the big capital of France?"
SETTINGS = GeneticSearch(population=20, mutation_rate=0.3, least_similarity=0.7)


def close(texts):
    return np.ones(len(texts))


def perturbed(closeness=close, number=9, settings=SETTINGS, seed=0, text=TEXT, **more):
    rng = np.random.default_rng(seed)
    return genetic_perturbations(text, LEXICON, closeness, number, settings, rng, **more)


def test_templates_stand_around_the_request_as_it_is():
    assert templated("A {prompt}?", ["Please: {prompt}", "{prompt} Thanks.", "x"], 2) == (
        "Please: A {prompt}?",
        "A {prompt}? Thanks.",
    )


def test_perturbations_are_different_texts_of_substitutions_alone():
    found = perturbed()
    assert len(set(found)) == len(found) == 9 and TEXT not in found
    allowed = {"What", "Which", "is", "the", "big", "large", "huge", "vast", "capital", "seat", "city", "of", "France?"}
    # A deletion may leave the next word first, which stays as it is.
    assert {word for text in found for word in text.split()} <= allowed
    assert found == perturbed() != perturbed(seed=1)


def test_crossover_reaches_several_substitutions_and_the_first_generation_has_one():
    one = perturbed(number=100, settings=GeneticSearch(9, 0.0, 0.7))
    assert sorted(one) == sorted(
        [
            *("Which is the big capital of France?", "is the big capital of France?"),
            *(f"What is the {word} capital of France?" for word in ("large", "huge", "vast")),
            *("What is the capital of France?", "What is the big of France?"),
            *(f"What is the big {word} of France?" for word in ("seat", "city")),
        ]
    )
    many = perturbed(number=100)
    assert len(many) == SETTINGS.population and set(one) < set(many)
    assert any("Which" in text and "seat" in text for text in perturbed(number=100, settings=GeneticSearch(59, 0, 0)))


def test_the_search_stops_where_a_generation_is_too_far():
    asked = []

    def further_each_time(texts):
        asked.append(list(texts))
        return np.full(len(texts), 1 - 0.2 * len(asked))

    found = perturbed(further_each_time, number=100, settings=GeneticSearch(1000, 0.5, 0.7))
    # .8 is kept, .6 is not.
    assert len(asked) == 2 and sorted(found) == sorted(asked[0])
    with pytest.raises(DomainError, match="less similar to itself than 0.9"):
        perturbed(lambda texts: np.full(len(texts), 0.5), settings=GeneticSearch(20, 0.3, 0.9))


def test_parents_are_drawn_by_similarity():
    sizes, rng = [3, 3], np.random.default_rng(0)
    children = perturbation._children([(1, 1), (2, 2)] * 500, np.array([1.0, 0.0] * 500), sizes, 0.0, rng)
    assert set(children) == {(1, 1)}
    mixed = perturbation._children([(1, 1), (2, 2)] * 500, np.array([3.0, 1.0] * 500), sizes, 0.0, rng)
    assert np.mean([child[0] == 1 for child in mixed]) == pytest.approx(0.75, abs=0.04)
    assert set(mixed) == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_draws_are_uniform_over_generations():
    generations, rng = [["a"], [f"b{number}" for number in range(9)]], np.random.default_rng(0)
    first = [perturbation._drawn(generations, 1, rng)[0] for _ in range(2000)]
    assert np.mean([name == "a" for name in first]) == pytest.approx(0.5, abs=0.04)
    assert sorted(perturbation._drawn(generations, 99, rng)) == sorted(["a", *generations[1]])


def test_the_rule_of_keywords_can_be_replaced():
    found = perturbed(number=100, keywords=lambda words, lexicon: [words.index("capital")])
    assert sorted(found) == sorted(
        ["What is the big seat of France?", "What is the big city of France?", "What is the big of France?"]
    )


def test_a_request_without_keywords_is_refused():
    with pytest.raises(DomainError, match="none of its words is in the lexicon"):
        perturbed(text="7 * 8 = ?")


def test_substitutions_are_each_once_and_deletion_is_the_last():
    entry = {"hypernyms": ["city", "place"], "synonyms": ["seat", "city"]}
    assert substitutions(entry) == ("seat", "city", "place", "")


def test_the_shipped_lexicon_knows_a_word_of_nearly_every_shipped_question():
    lexicon = read_lexicon(ROOT / "data" / "lexicon.json")
    rows = [json.loads(line) for line in (ROOT / "data" / "questions.jsonl").read_text().splitlines()]
    texts = [row["prompt"] for row in rows]
    rng = np.random.default_rng(0)
    found = [genetic_perturbations(text, lexicon, close, 3, SETTINGS, rng) for text in texts]
    assert min(map(len, found)) >= 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "has no words"),
        ("[]", "has no words"),
        ('{"a": ["b"]}', "the entry 'a' must be an object of synonyms, hypernyms, hyponyms"),
        ('{"a": {"antonyms": []}}', "the entry 'a' must be an object"),
        ('{"a": {"synonyms": "b"}}', "'a': synonyms must be a list of words, got 'b'"),
    ],
)
def test_a_bad_lexicon_is_named(tmp_path, content, message):
    path = tmp_path / "lexicon.json"
    path.write_text(content)
    with pytest.raises(ArtifactError, match=message):
        read_lexicon(path)
