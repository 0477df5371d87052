"""NoveltyBench's rules against hand-computed values, the benchmark's published scores and brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.language.novelty import (
    distinct,
    generation_ratings,
    partition_responses,
    rating,
    short_responses_equal,
    utility,
    word_dice,
)

TEXTS = st.one_of(
    st.text(st.sampled_from("ab C.\n\t"), max_size=14),
    st.lists(st.sampled_from(["a", "b"]), min_size=4, max_size=8).map(" ".join),
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Paris", " paris\n", True),
        ("Paris.", "Paris", False),  # punctuation is part of the word
        ("New York", "York", True),  # 2 * 1 >= 2
        ("New York City", "York", False),  # 2 * 1 < 3
        ("", "", True),
        ("no no no", "no no no", False),  # one different word in common, three in length
        ("one two three four five six", "one", None),
        ("one two three four five six", "one two three four five six", None),
    ],
)
def test_rule_for_short_responses(first, second, expected):
    assert short_responses_equal(first, second) is expected
    assert short_responses_equal(second, first) is expected


def test_word_dice_by_hand():
    assert word_dice("The cat, the dog!", "the CAT") == pytest.approx(2 * 2 / 6)
    assert word_dice("Straße", "STRASSE.") == 1.0  # case-folded, not lower-cased
    assert word_dice("no no no", "no no no") == 1.0
    assert word_dice("a a b", "a b b") == pytest.approx(2 * 2 / 6)
    assert word_dice("", "...") == 1.0 and word_dice("", "a") == 0.0


def test_ratings_at_the_thresholds():
    assert rating(-1000.0) == 1 and rating(1000.0) == 10
    assert rating(-7.71875) == 1 and rating(math.nextafter(-7.71875, 0)) == 2
    assert rating(-5.6) == 5 and rating(-2.046875) == 9 and rating(-2.0) == 10
    with pytest.raises(ValueError, match="not a number"):
        rating(math.nan)


@pytest.mark.parametrize(
    ("partition", "class_ratings", "expected"),
    [
        # Published by the benchmark for one of its leaderboard entries (prompts curated-71, -69 and -27).
        (range(10), [9, 6, 6, 9, 6, 6, 7, 4, 2, 7], 6.860795780773976),
        ([0, 1, 2, 3, 4, 5, 6, 3, 6, 7], [4, 10, 9, 4, 10, 10, 10, 10], 6.978157401661962),
        ([0, 1, 0, 2, 1, 3, 2, 4, 5, 6], [2, 9, 4, 10, 9, 7, 10], 4.241154317246582),
        # (10 + 0.64 * 5) / (1 + 0.8 + 0.64)
        ([0, 0, 1], [10, 5], 13.2 / 2.44),
        ([0] * 10, [10], 10 / sum(0.8**i for i in range(10))),
    ],
)
def test_utility(partition, class_ratings, expected):
    assert utility(generation_ratings(list(partition), class_ratings), 0.8) == pytest.approx(expected, abs=1e-12)
    assert distinct(list(partition)) == len(class_ratings)


def sequential(responses, equal):
    """The benchmark's rule, one response at a time; the pairs that it asks for."""
    labels, heads, asked = [], [], []
    for text in responses:
        for label, head in enumerate(heads):
            asked.append((head, text))
            if equal(head, text):
                labels.append(label)
                break
        else:
            labels.append(len(heads))
            heads.append(text)
    return labels, asked


@settings(deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=8), max_size=5), st.integers(0, 10**6), st.floats(0, 1))
def test_rounds_equal_the_sequential_rule(responses, seed, threshold):
    def score(pair):  # neither symmetric nor transitive, and low even for equal texts
        return np.random.default_rng([seed, *map(ord, "".join(pair)), len(pair[0])]).random()

    given_pairs = []

    def similarity(pairs):
        given_pairs.extend(pairs)
        return np.array([score(pair) for pair in pairs])

    def equal(first, second):
        decided = short_responses_equal(first, second)
        return score((first, second)) > threshold if decided is None else decided

    labels = partition_responses(responses, similarity, threshold)
    expected = [sequential(texts, equal) for texts in responses]
    assert labels == [found for found, _ in expected]
    asked = [pair for _, pairs in expected for pair in pairs]
    unclear = [pair for pair in asked if short_responses_equal(*pair) is None]
    assert sorted(given_pairs) == sorted(unclear)


def test_a_similarity_at_the_threshold_is_not_above_it():
    responses = [["one two three four five six", "a b c d e f"]]
    for value, expected in ((0.102, [[0, 1]]), (0.1021, [[0, 0]])):
        assert partition_responses(responses, lambda pairs, v=value: np.full(len(pairs), v), 0.102) == expected
