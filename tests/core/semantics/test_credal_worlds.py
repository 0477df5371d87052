"""Sets of laws from answers to reported numbers: worlds where people's law is inside, and where it is not."""

import math

import numpy as np
import pytest

from pipeline.core.semantics import credal_metrics
from pipeline.core.semantics.question import HumanClass, Question


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


def test_wordings_have_a_part_between_of_their_own():
    questions = [Question(name, "?", gold=("a",), variants=variants) for name, variants in (("p", ("!",)), ("q", ()))]
    counts = {name: [{"a": 50}, {"a": 50}] for name in "pq"}
    wordings = {"p": [{"a": 60, "b": 40}, {"a": 90, "b": 10}]}
    tables = [credal_metrics.question_table(questions, counts, None, found) for found in (wordings, {"p": [{"a": 9}]})]
    found = {row["metric"]: row for row in credal_metrics.metric_rows(*tables, seed=0, names=("x",), replicates=100)}
    between = found["credal_between_variants_nats"]
    # The settings agree, the wordings do not; the question without paraphrases says nothing.
    assert between["value"] == pytest.approx(0.06329, abs=1e-5) and between["n"] == between["undefined"] == 1
    assert found["credal_between_variants_nats_difference"]["value"] == pytest.approx(0.06329, abs=1e-5)
    assert found["credal_between_entropy_nats"]["value"] == 0
    rows, _ = rows_of(questions, counts)
    assert not any("variants" in name for name in rows)
