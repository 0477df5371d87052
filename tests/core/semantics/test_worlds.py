"""Worlds whose answer is known, from answers to reported numbers: a model that is people, and models that are not."""

import numpy as np
import pandas as pd
import pytest

from pipeline.core.semantics import human_metrics, semantic_calibration
from pipeline.core.semantics.calibration import binned_errors, calibration_bins, smooth_calibration_error
from pipeline.axes.questions.classes import classify, counts_of
from pipeline.axes.questions.question import NO_ANSWER, HumanClass, Question

SIZE, ANSWERS, PEOPLE = 80, 50, 100


def asked_questions(rng):
    """Questions, people's true laws, and people's answers drawn from them; the first class is right by its share."""
    questions, laws = [], []
    for place in range(SIZE):
        law = rng.dirichlet(np.ones(rng.integers(2, 8)))
        names = [f"answer {k}" for k in range(len(law))]
        counts = rng.multinomial(PEOPLE, law)
        human = tuple(HumanClass(n, int(c), (n,)) for n, c in zip(names, counts, strict=True) if c)
        gold = (names[rng.choice(len(law), p=law)],)
        questions.append(Question(f"q{place}", "?", gold=gold, human=human, num_people=PEOPLE))
        laws.append(law)
    return questions, laws


def answers_of(questions, laws, rng, sharpness=1.0):
    """Answers drawn from the laws raised to a power: 1 is people's law, more is overconfident."""
    found = {}
    for question, law in zip(questions, laws, strict=True):
        sharp = law**sharpness / (law**sharpness).sum()
        texts = [f"Answer {k}." for k in rng.choice(len(law), size=ANSWERS, p=sharp)]
        found[question.prompt_id] = counts_of(classify(texts, question, "aliases"))
    return found


def agreement_rows(questions, counts, base, replicates=100):
    tables = []
    for answers in (counts, base):
        rng = np.random.default_rng(5)
        rows = [human_metrics.question_row(question, answers[question.prompt_id], rng) for question in questions]
        tables.append(pd.DataFrame(rows))
    found = human_metrics.metric_rows(*tables, seed=0, names=("x",), replicates=replicates)
    return {row["metric"]: row for row in found}, tables[0]


def calibration_rows(questions, counts, base, target, seed=0):
    sides = []
    for answers in (counts, base):
        rng = np.random.default_rng(6)
        table = pd.DataFrame([semantic_calibration.question_row(q, answers[q.prompt_id], rng) for q in questions])
        sides.append(semantic_calibration.predictions_of(questions, answers, table, target))
    found = semantic_calibration.metric_rows(
        *sides, target, seed=seed, names=("x",), replicates=100, floor_replicates=25
    )
    return {row["metric"].removeprefix("semcal_"): row for row in found}, sides[0]


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    questions, laws = asked_questions(rng)
    return questions, answers_of(questions, laws, rng), answers_of(questions, laws, rng, sharpness=4)


def test_a_model_that_is_people_agrees_with_them_within_the_null(world):
    questions, people_like, collapsed = world
    rows, table = agreement_rows(questions, people_like, people_like)
    tv = rows["human_tv"]
    assert tv["value"] == pytest.approx(tv["floor"], abs=0.01) and tv["ci_low"] < tv["floor"] < tv["ci_high"]
    assert rows["human_js_bits"]["value"] == pytest.approx(rows["human_js_bits"]["floor"], abs=0.01)
    assert rows["human_within_band"]["value"] > 0.87 and rows["human_within_band"]["floor"] == 0.95
    assert abs(rows["entropy_gap_nats"]["value"]) < 0.06 and rows["human_recall"]["value"] > 0.97
    assert rows["human_tv_difference"]["value"] == 0 and len(table) == SIZE
    rows, _ = agreement_rows(questions, collapsed, people_like)
    assert rows["human_tv"]["ci_low"] > 2 * rows["human_tv"]["floor"]
    assert rows["human_tv_difference"]["ci_low"] > 0.1 and rows["human_recall_difference"]["ci_high"] < 0
    assert rows["entropy_gap_nats"]["ci_high"] < -0.3 and rows["human_within_band"]["value"] < 0.3


@pytest.mark.parametrize("target", ["gold", "people"])
def test_a_model_that_is_people_is_calibrated_and_a_collapsed_one_is_not(world, target):
    questions, people_like, collapsed = world
    prefix = semantic_calibration.TARGETS[target]
    rows, _ = calibration_rows(questions, people_like, people_like, target)
    error = rows[f"{prefix}smooth_ece"]
    assert error["ci_low"] <= error["floor"] * 1.1 and error["value"] < error["floor"] + 0.06
    assert rows[f"{prefix}gap"]["ci_low"] < 0.03 and rows[f"{prefix}gap"]["ci_high"] > -0.03
    classwise = rows[f"{prefix}classwise_smooth_ece"]
    assert classwise["value"] < classwise["floor"] + 0.03
    rows, _ = calibration_rows(questions, collapsed, people_like, target)
    assert rows[f"{prefix}smooth_ece"]["ci_low"] > 1.3 * rows[f"{prefix}smooth_ece"]["floor"]
    assert rows[f"{prefix}gap"]["ci_low"] > 0.1
    # Sharper answers are more confident and not more often right: the change is seen, paired.
    assert rows[f"{prefix}gap_difference"]["ci_low"] > 0.05
    # One label to a question says less than a hundred people do.
    change = rows[f"{prefix}smooth_ece_difference"]
    assert change["value"] > 0.05 and (target == "gold" or change["ci_low"] > 0.1)


def test_a_condition_compared_with_itself_has_not_changed(world):
    questions, people_like, _ = world
    rows, _ = calibration_rows(questions, people_like, people_like, "gold")
    for name in semantic_calibration.DIFFERENCES:
        row = rows[f"{name}_difference"]
        assert row["value"] == row["ci_low"] == row["ci_high"] == 0
    assert rows["rejection_ratio"]["value"] == pytest.approx(2 * rows["auroc"]["value"] - 1)
    assert rows["refinement"]["value"] <= rows["brier"]["value"]
    assert rows["accuracy"]["n"] == SIZE


def test_equal_laws_are_calibrated_against_people_by_construction():
    law = {"a": 60, "b": 30, "c": 10}
    human = tuple(HumanClass(label, count, (label,)) for label, count in law.items())
    question = Question("q", "?", human=human, num_people=100)
    rng = np.random.default_rng(0)
    table = pd.DataFrame([semantic_calibration.question_row(question, law, rng)])
    found = semantic_calibration.predictions_of([question], {"q": law}, table, "people")
    assert found.labels.tolist() == found.first.tolist() == [0.6]
    assert found.share.tolist() == found.pair_labels.tolist() == [0.6, 0.3, 0.1]
    assert smooth_calibration_error(found.share, found.pair_labels) == 0
    # Nothing is right or wrong there.
    assert np.isnan(table["gold"]).all()
    gold = semantic_calibration.predictions_of([question], {"q": law}, table, "gold")
    rows = semantic_calibration.metric_rows(gold, gold, "gold", seed=0, names=(), replicates=100, floor_replicates=20)
    assert rows == []


def test_a_reply_without_an_answer_is_never_right_and_still_costs_confidence():
    question = Question("q", "?", gold=("a",))
    counts = counts_of(classify([None] * 6 + ["a"] * 4, question, "aliases"))
    row = semantic_calibration.question_row(question, counts, np.random.default_rng(0))
    assert row["answer"] == NO_ANSWER and row["gold"] == 0 and row["sem1"] == 0.6
    found = semantic_calibration.predictions_of([question], {"q": counts}, pd.DataFrame([row]), "gold")
    assert found.share.tolist() == [0.4] and found.pair_labels.tolist() == [1.0]


def test_weights_are_repetitions_and_batches_are_their_parts():
    rng = np.random.default_rng(1)
    confidence, labels = rng.random((3, 20)), (rng.random((3, 20)) < 0.5).astype(float)
    weights = rng.integers(1, 4, size=(3, 20))
    edges = calibration_bins(confidence[0], labels[0]).edges
    for function in (smooth_calibration_error, lambda c, y, w=None: binned_errors(c, y, edges, w)):
        together = function(confidence, labels, weights)
        for row in range(3):
            repeated = [np.repeat(values[row], weights[row]) for values in (confidence, labels)]
            assert together[row] == pytest.approx(function(*repeated), abs=2e-6)
    assert binned_errors(confidence[0], labels[0], edges) == pytest.approx(
        calibration_bins(confidence[0], labels[0]).error
    )


def test_the_reliability_diagram_of_a_calibrated_model_lies_in_its_band(world):
    questions, people_like, collapsed = world
    inside = []
    for answers in (people_like, collapsed):
        _, found = calibration_rows(questions, answers, answers, "people")
        table = semantic_calibration.reliability(found, np.random.default_rng(0)).dropna()
        assert table["size"].sum() == SIZE
        within = (table["band_low"] - 0.03 <= table["frequency"]) & (table["frequency"] <= table["band_high"] + 0.03)
        inside.append(np.average(within, weights=table["size"]))
    assert inside[0] > 0.7 > inside[1]
