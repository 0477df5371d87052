"""Sets as published: the statistics by hand, hulls of squares and cubes, and what their standardisation removes."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import f_oneway

from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.inverse_entropy import cosine_similarities
from pipeline.core.semantics.published_sets import (
    GROUPS,
    STATISTICS,
    decoding_variance,
    diversity,
    hull_comparison,
    metric_rows,
    people_texts,
    standardised,
)
from pipeline.axes.questions.question import HumanClass, Question

CUBE = np.array(list(itertools.product((0.0, 1.0), repeat=3)))


def values(rows, metric, family=""):
    (row,) = [row for row in rows if (row["metric"], row["family"]) == (f"published_{metric}", family)]
    return row


def test_statistics_by_hand():
    # Cosines 1, 0 and 0, so distances 0, 1 and 1.
    similarity = cosine_similarities(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]))
    found = dict(zip(STATISTICS, diversity(["a red fox", "A red", "owl"], similarity), strict=True))
    assert found["cosine_mean"] == pytest.approx(2 / 3) and found["cosine_sd"] == pytest.approx(math.sqrt(2) / 3)
    assert found["cosine_iqr"] == pytest.approx(0.5)
    # Four words of six; {a, red, fox} and {a, red} share two of three, owl none.
    assert found["type_token_ratio"] == pytest.approx(4 / 6)
    assert found["jaccard_mean"] == pytest.approx(7 / 9)
    assert found["jaccard_sd"] == pytest.approx(np.std([1 / 3, 1, 1]))
    assert found["length_sd"] == pytest.approx(math.sqrt(2 / 3))
    assert (found["length_iqr"], found["length_range"]) == (1.0, 2.0)


def test_answers_that_are_all_the_same_have_no_diversity():
    found = dict(zip(STATISTICS, diversity(["cat"] * 4, np.ones((4, 4))), strict=True))
    assert found.pop("type_token_ratio") == 0.25 and set(found.values()) == {0.0}


def test_people_are_spread_over_the_spellings_of_their_class():
    human = (HumanClass("lion", 5, ("lion", "lions")), HumanClass("owl", 1, ("owl",)))
    question = Question("q", "?", human=human, num_people=9)
    everyone = people_texts(question, 99, random_stream(0, "x"))
    assert sorted(everyone) == ["lion", "lion", "lion", "lions", "lions", "owl"]
    assert len(people_texts(question, 4, random_stream(0, "x"))) == 4


def test_cubes_and_squares():
    same = hull_comparison(CUBE, 2 * CUBE)
    # Each vertex of the small cube is within 1 of the large one's but for its far corners.
    distances = np.linalg.norm(CUBE[:, None] - 2 * CUBE[None], axis=-1).min(axis=1)
    assert same["volume"] == pytest.approx(1) and same["people_volume"] == pytest.approx(8)
    assert same["overlap"] == pytest.approx((distances < 1).mean()) and same["hausdorff"] == pytest.approx(math.sqrt(3))
    # A point inside changes nothing.
    shifted = hull_comparison(np.vstack([CUBE, [[0.5, 0.4, 0.3]]]) + np.array([0.5, 0, 0]), CUBE)
    assert shifted["volume"] == pytest.approx(1)
    assert shifted["overlap"] == 1 and shifted["hausdorff"] == pytest.approx(0.5)
    assert hull_comparison(CUBE + 5, CUBE)["overlap"] == 0
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    assert hull_comparison(square, square + np.array([1.5, 0]))["volume"] == pytest.approx(4)
    assert hull_comparison(square, square + np.array([1.5, 0]))["hausdorff"] == pytest.approx(1.5)
    flat = np.column_stack([square, np.zeros(4)])
    for few in (flat, CUBE[:3], CUBE[:0]):
        assert all(map(math.isnan, hull_comparison(few, CUBE).values()))


def test_standardising_each_source_removes_location_and_scale():
    """A and 50 A + 1000 are the same set as published; in people's units they are far apart."""
    people = np.random.default_rng(0).normal(size=(40, 9))
    rows = metric_rows({"all": 50 * people + 1000}, people, 0)["all"]
    assert values(rows, "overlap")["value"] == 1
    assert values(rows, "hausdorff")["value"] == pytest.approx(0, abs=1e-9)
    volume = values(rows, "volume")
    assert volume["value"] == pytest.approx(volume["floor"]) and (volume["n"], volume["undefined"]) == (40, 0)
    assert values(rows, "referenced_overlap")["value"] == 0
    assert values(rows, "referenced_hausdorff")["value"] > 500
    assert values(rows, "referenced_volume")["value"] == pytest.approx(50**3 * volume["floor"], rel=1e-6)
    parts = [values(rows, "volume", group)["value"] for group in GROUPS]
    assert volume["value"] == pytest.approx(np.mean(parts))


def test_flat_groups_are_counted_and_left_out_of_the_mean():
    people = np.random.default_rng(1).normal(size=(30, 9))
    own = people.copy()
    own[:, 7] = 2.0
    rows = metric_rows({"all": own, "hot": people}, people, 3)
    volume = values(rows["all"], "volume")
    assert volume["undefined"] == 1 and math.isnan(values(rows["all"], "volume", "syntactic")["value"])
    parts = [values(rows["all"], "volume", group)["value"] for group in ("semantic", "lexical")]
    assert volume["value"] == pytest.approx(np.mean(parts))
    share = values(rows["all"], "decoding_share")
    assert (share["n"], share["undefined"]) == (30, 3)
    assert not any(row["metric"].endswith("decoding_share") for row in rows["hot"])
    nothing = metric_rows({"all": np.zeros((0, 9))}, np.zeros((0, 9)), 4)["all"]
    assert all(math.isnan(row["value"]) and row["undefined"] for row in nothing)


def test_between_and_within_sum_to_one_and_are_an_analysis_of_variance():
    points = np.random.default_rng(2).normal(size=(3, 25, 9))
    points[1] += 1.5
    between, within, _ = decoding_variance(points)
    assert between + within == pytest.approx(1)
    statistic = np.array([f_oneway(*points[:, :, place]).statistic for place in range(9)])
    # eta^2 = F (S - 1) / (F (S - 1) + N - S).
    assert between == pytest.approx((statistic * 2 / (statistic * 2 + 72)).mean())
    share = values(metric_rows(dict(zip("abc", points, strict=True)), points[0], 0)["a"], "decoding_share")
    assert share["value"] == pytest.approx(between) and share["floor"] < share["value"] / 3


def test_the_share_by_chance_is_its_mean_over_exchanges_within_questions():
    # Two settings and three questions: all eight exchanges.
    points = np.random.default_rng(3).normal(size=(2, 3, 9))
    found = []
    for swapped in itertools.product((False, True), repeat=3):
        exchanged = np.where(np.array(swapped)[None, :, None], points[::-1], points)
        found.append(decoding_variance(exchanged)[0])
    assert decoding_variance(points)[2] == pytest.approx(np.mean(found))
    same = np.repeat(points[:1], 2, axis=0)
    assert decoding_variance(same)[0] == pytest.approx(0) and decoding_variance(same)[2] == pytest.approx(0)


def test_a_statistic_that_does_not_vary_is_zero():
    points = np.column_stack([np.arange(5.0), np.full(5, 0.1)])
    found = standardised(points, points)
    assert found[:, 0].std() == pytest.approx(1) and not found[:, 1].any()
