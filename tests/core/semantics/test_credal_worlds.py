"""Sets of laws from answers to reported numbers: worlds where people's law is inside, and where it is not."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.core.semantics import credal_metrics
from pipeline.axes.questions.question import HumanClass, Question, people_counts


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    monkeypatch.setattr(credal_metrics, "BAND_REPLICATES", 15)


def world(rng, inside, size=16, settings=3):
    """Questions whose people's law is a mixture of the members' laws, or is far from all of them."""
    questions, counts = [], {}
    for place in range(size):
        classes = int(rng.integers(3, 6))
        laws = rng.dirichlet(np.ones(classes), size=settings)
        people = rng.dirichlet(np.ones(settings)) @ laws if inside else np.eye(classes)[laws.max(axis=0).argmin()]
        drawn = rng.multinomial(100, people)
        names = [f"c{k}" for k in range(classes)]
        human = tuple(HumanClass(n, int(c), (n,)) for n, c in zip(names, drawn, strict=True) if c)
        questions.append(Question(f"q{place}", "?", human=human, num_people=100))
        counts[f"q{place}"] = [dict(zip(names, rng.multinomial(50, law).tolist(), strict=True)) for law in laws]
    return questions, counts


def rows_of(questions, counts, base=None):
    own, other = (
        credal_metrics.question_table(questions, found, rng)
        for found, rng in ((counts, np.random.default_rng(3)), (base or counts, None))
    )
    tables = own, other
    rows = credal_metrics.metric_rows(*tables, seed=0, names=("x",), replicates=100)
    return {row["metric"]: row for row in rows}, tables[0]


def test_people_inside_the_set_are_covered_and_people_outside_are_not():
    inside, table = rows_of(*world(np.random.default_rng(0), inside=True))
    assert inside["credal_covered"]["value"] > 0.7 and inside["credal_covered"]["floor"] == 0.95
    assert inside["credal_distance"]["value"] < inside["credal_distance"]["floor"] + 0.02
    assert inside["credal_distance"]["value"] < inside["credal_nearest_member"]["value"]
    assert (table["lower_entropy_nats"] <= table["within_entropy_nats"] + 1e-9).all()
    assert (table["total_entropy_nats"] <= table["upper_entropy_nats"] + 1e-6).all()
    outside, _ = rows_of(*world(np.random.default_rng(1), inside=False))
    assert outside["credal_covered"]["value"] < 0.2
    assert outside["credal_distance"]["ci_low"] > 2 * outside["credal_distance"]["floor"]


def test_one_setting_has_nothing_between_and_a_wider_set_is_nearer():
    questions, counts = world(np.random.default_rng(2), inside=True)
    single = {name: members[:1] for name, members in counts.items()}
    rows, _ = rows_of(questions, single, base=counts)
    assert rows["credal_between_entropy_nats"]["value"] == rows["credal_imprecision_nats"]["value"] == 0
    assert rows["credal_diameter"]["value"] == 0 and math.isnan(rows["credal_relative_volume"]["value"])
    assert rows["credal_distance_difference"]["value"] > 0
    assert rows["credal_between_entropy_nats_difference"]["ci_high"] < 0


def test_questions_that_people_were_not_asked_have_entropies_alone():
    questions = [Question("q", "?", gold=("a",))]
    rows, table = rows_of(questions, {"q": [{"a": 60, "b": 40}, {"a": 90, "b": 10}]})
    assert math.isnan(table["distance"][0]) and rows["credal_distance"]["undefined"] == 1
    assert rows["credal_between_entropy_nats"]["value"] == pytest.approx(0.06329, abs=1e-5)
    assert rows["credal_relative_volume"]["value"] == pytest.approx(0.3)


def test_questions_without_members_are_left_out():
    """As those without paraphrases are of the set over wordings."""
    questions = [Question(name, "?", category=name, gold=("a",)) for name in "pq"]
    rows, table = rows_of(questions, {"q": [{"a": 60, "b": 40}, {"a": 90, "b": 10}]}, base={"q": [{"a": 9}]})
    assert table["prompt_id"].tolist() == table["category"].tolist() == ["q"]
    between = rows["credal_between_entropy_nats"]
    assert between["value"] == pytest.approx(0.06329, abs=1e-5) and (between["n"], between["undefined"]) == (1, 0)
    assert rows["credal_between_entropy_nats_difference"]["value"] == between["value"]


def test_members_of_one_law_are_apart_as_the_floors_say(monkeypatch):
    monkeypatch.setattr(credal_metrics, "BAND_REPLICATES", 40)
    rng, classes, members, size = np.random.default_rng(5), 4, 3, 60
    drawn = rng.multinomial(size, np.full(classes, 1 / classes), size=(160, members))
    table = credal_metrics.set_table(
        {f"q{place}": (own, np.zeros(classes, dtype=int)) for place, own in enumerate(drawn)}, np.random.default_rng(6)
    )
    # (S - 1)(K - 1) / (2 S n), the mean of a chi-squared law over twice the number of answers (Wilks 1938).
    assert table["between_null"].mean() == pytest.approx(2 * 3 / (2 * members * size), rel=0.1)
    # A question's own part has a standard deviation of 0.6 of its mean: three standard errors of 160 are 0.14.
    for column, null in (("between_entropy_nats", "between_null"), ("diameter", "diameter_null")):
        assert table[column].mean() == pytest.approx(table[null].mean(), rel=0.15)
    apart = np.eye(classes, dtype=int)[:members] * size
    found = credal_metrics.set_table({"q": (apart, np.zeros(classes, dtype=int))}, np.random.default_rng(7))
    assert found["between_entropy_nats"][0] == pytest.approx(math.log(members)) and found["diameter"][0] == 1
    assert found["between_null"][0] < 0.05 and found["diameter_null"][0] < 0.5


def test_counts_of_tables_are_those_of_questions():
    questions, counts = world(np.random.default_rng(4), inside=True, size=5)
    members = pd.DataFrame(
        [
            (name, member, *item)
            for name, own in counts.items()
            for member, answers in enumerate(own)
            for item in answers.items()
        ],
        columns=["prompt_id", "member", "label", "count"],
    )
    people = pd.DataFrame(
        [(q.prompt_id, *item) for q in questions for item in people_counts(q).items()],
        columns=["prompt_id", "label", "count"],
    )
    found = credal_metrics.set_table(credal_metrics.tabled_counts(members, people), None)
    expected = credal_metrics.question_table(questions, counts, None).drop(columns="category")
    pd.testing.assert_frame_equal(found, expected)
    # A question that a member did not answer has no set.
    fewer = members[(members["prompt_id"] != "q0") | (members["member"] != 1)]
    assert list(credal_metrics.tabled_counts(fewer, people)) == ["q1", "q2", "q3", "q4"]
    alone = credal_metrics.tabled_counts(members, people[people["prompt_id"] != "q0"])
    assert not alone["q0"][1].any() and alone["q1"][1].sum() == 100
