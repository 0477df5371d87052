"""Semantic calibration: closed forms, an oracle written out, and worlds in which the verdict is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from pipeline.axes.questions.confidence import held_out_confidence, modal_class
from pipeline.axes.questions.people import people_splits
from pipeline.axes.semcal.calibration import (
    FLOORS,
    PEOPLE_SPLITS,
    calibration_bins,
    calibration_verdict,
    people_floors,
    people_row,
    prediction,
    predictions,
    simulated_floors,
    smooth_calibration_error,
    statistics_against,
    unbiased_brier_score,
)
from pipeline.core.statistics.summarise import summarise
from tests.axes.test_people import world  # noqa: F401

QUESTIONS, ANSWERS, CLASSES, RUNS = 300, 20, 6, 60
ERROR, SCORE = "semcal_smooth_ece", "semcal_brier"


@pytest.mark.parametrize(("classes", "expected"), [(2, 0.5), (4, 0.249), (10, 0.1), (20, 0.05)])
def test_confidences_of_uniform_laws(classes, expected):
    rng = np.random.default_rng(classes)
    counts = rng.multinomial(50, np.full(classes, 1 / classes), size=4000)
    assert held_out_confidence(counts, rng).mean() == pytest.approx(expected, abs=0.004)


def test_two_answers_of_two_classes():
    rng = np.random.default_rng(0)
    assert held_out_confidence([[2, 0], [1, 1]], rng).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="at least 2"):
        held_out_confidence([[5], [1]], rng)


def test_halves_are_drawn_without_replacement_and_ties_broken_at_random():
    counts, rng = np.array([5, 3, 1]), np.random.default_rng(0)
    halves = rng.multivariate_hypergeometric(counts, 4, size=20000)
    modal = (halves + rng.random(halves.shape)).argmax(axis=1)
    expected = ((counts - halves)[np.arange(len(halves)), modal] / 5).mean()
    assert held_out_confidence(counts, rng, splits=20000) == pytest.approx(expected, abs=0.005)
    found = np.bincount(modal_class(np.tile([3, 0, 3], (400, 1)), rng), minlength=3)
    assert found[1] == 0 and min(found[0], found[2]) > 150


def test_points_of_the_diagram_and_weights_of_the_error():
    # 0.1 is in the first bin, which is closed on the right.
    bins = calibration_bins(np.array([0.1, 0.11]), np.array([0.0, 1.0]))
    assert bins["size"].tolist() == [1, 1] and bins["frequency"].tolist() == [0, 1]
    weights = np.array([[2, 0, 1, 3]])
    values = np.array([0.1, 0.35, 0.62, 0.9]), np.array([0.0, 1.0, 1.0, 1.0])
    repeated = [side[[0, 0, 2, 3, 3, 3]] for side in values]
    smoothed = smooth_calibration_error(*values, weights)
    assert smoothed[0] == pytest.approx(smooth_calibration_error(*repeated), abs=1e-6)


def test_smooth_error_of_known_predictors():
    labels = np.r_[np.ones(600), np.zeros(400)]
    assert smooth_calibration_error(np.full(1000, 0.9), labels) == pytest.approx(0.3, abs=1e-4)
    confidence = np.r_[np.full(500, 0.2), np.full(500, 0.8)]
    assert smooth_calibration_error(confidence, confidence > 0.5) == pytest.approx(0.18, abs=0.002)
    assert smooth_calibration_error(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 0
    # What a calibrated predictor scores is not 0.
    rng = np.random.default_rng(0)
    confidence = rng.random((40, 3000))
    found = smooth_calibration_error(confidence, rng.random(confidence.shape) < confidence)
    assert found.mean() == pytest.approx(0.021, abs=0.002)


def test_smooth_error_is_its_definition_written_out():
    rng = np.random.default_rng(2)
    confidence = rng.random(12)
    labels = (rng.random(12) < confidence**2).astype(float)

    def error(width):
        def residual(t):
            images = [confidence + 2 * k for k in range(-6, 7)] + [2 * k - confidence for k in range(-6, 7)]
            kernel = sum(np.exp(-((t - place) ** 2) / (2 * width**2)) for place in images)
            return abs(((labels - confidence) * kernel).mean()) / (width * np.sqrt(2 * np.pi))

        return quad(residual, 0, 1, limit=400)[0]

    expected = brentq(lambda width: error(width) - width, 0.01, 0.9)
    assert smooth_calibration_error(confidence, labels) == pytest.approx(expected, abs=0.003)


def test_brier_score_by_hand_and_without_bias():
    assert unbiased_brier_score([20, 0], [1, 0]) == 0 and unbiased_brier_score([0, 20], [1, 0]) == 2
    assert unbiased_brier_score([0, *[1] * 20], [1, *[0] * 20]) == 1
    law, truth = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.5, 0.0])
    counts = np.random.default_rng(0).multinomial(5, law, size=40_000)
    expected = 1 - 2 * (law * truth).sum() + (law**2).sum()
    assert unbiased_brier_score(counts, truth).mean() == pytest.approx(expected, abs=0.01)


def overconfident_world(rng):
    """Laws of questions, the right class drawn from them, and their sharpened form, by which base answers."""
    laws = rng.dirichlet(np.ones(CLASSES), size=QUESTIONS)
    right = (laws.cumsum(axis=1) > rng.random((QUESTIONS, 1))).argmax(axis=1)
    sharp = laws**3 / (laws**3).sum(axis=1, keepdims=True)
    return laws, sharp, np.eye(CLASSES)[right]


def rows_of(counts, truth, condition, rng):
    found = predictions(counts, truth, rng)
    columns = dict(zip(("confidence", "label", "brier"), found, strict=True))
    names = {"prompt_id": np.arange(QUESTIONS).astype(str), "condition": condition}
    return pd.DataFrame({**columns, **names, "doubt": -found[0], "right": found[1]})


def answers_of(kind, laws, sharp, truth, rng):
    """Counts over the classes, and 20 further wrong ones: by the law itself, as base, or damaged."""
    wrong = np.zeros((QUESTIONS, ANSWERS), dtype=np.int64)
    if kind == "collapsed":
        return np.hstack([np.zeros((QUESTIONS, CLASSES), dtype=np.int64), wrong + 1])
    if kind in ("refusing", "one wrong"):
        wrong[:, 0] = ANSWERS
        return np.hstack([np.zeros((QUESTIONS, CLASSES), dtype=np.int64), wrong])
    return np.hstack([rng.multinomial(ANSWERS, laws if kind == "recalibrated" else sharp), wrong])


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("collapsed", 0, 0), ("refusing", 0, 0), ("unchanged", 0, 0.05), ("recalibrated", 0.9, 1)],
)
def test_only_a_recalibrated_model_is_better(kind, least, most):
    statistics = {name: statistics_against("gold")[name] for name in (ERROR, SCORE)}
    better = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        laws, sharp, truth = overconfident_world(rng)
        truth = np.hstack([truth, np.zeros((QUESTIONS, ANSWERS))])
        sides = [
            rows_of(answers_of(each, laws, sharp, truth, rng), truth, name, rng)
            for name, each in (("base", "unchanged"), ("soft", kind))
        ]
        found = summarise(pd.concat(sides), statistics, seed=run, names=(), replicates=100)
        own = {row["metric"]: row for row in found if row["condition"] == "soft"}
        better.append(calibration_verdict(own[ERROR], own[SCORE]) == "better")
    assert least <= np.mean(better) <= most


def test_a_calibrated_model_scores_its_floor_and_the_interval_covers_it():
    rng = np.random.default_rng(3)
    laws, _, truth = overconfident_world(rng)
    counts = rng.multinomial(ANSWERS, laws)
    rows = rows_of(counts, truth, "base", rng)
    labels = [[str(k) for k in np.repeat(np.arange(CLASSES), own)] for own in counts]
    floors = simulated_floors(labels, rng, 100)
    rows, statistics = rows.assign(**floors), statistics_against("gold")
    found = {r["metric"]: r for r in summarise(rows, statistics, floors=FLOORS, seed=0, names=(), replicates=200)}
    assert found[ERROR]["ci_low"] <= found[ERROR]["floor"] <= found[ERROR]["ci_high"]
    assert found[ERROR]["floor"] == pytest.approx(floors["floor_smooth_ece"]) and found[ERROR]["floor"] < 0.08
    assert found["semcal_auroc"]["value"] > 0.55 and found["semcal_accuracy"]["n"] == QUESTIONS


def test_other_people_are_as_calibrated_against_people_as_the_floor_says(world):  # noqa: F811
    questions, answers = world
    rows = pd.DataFrame(
        [
            {"prompt_id": q.prompt_id, "condition": "base"}
            | people_row(people_splits(q, len(own), seed=0, number=PEOPLE_SPLITS), own, np.random.default_rng(7))
            for q, own in zip(questions, answers, strict=True)
        ]
    )
    rows, statistics = rows.assign(**people_floors(rows)), statistics_against("people")
    found = summarise(rows, statistics, floors=FLOORS, seed=0, names=(), replicates=100)
    by_metric = {row["metric"]: row for row in found}
    error = by_metric["semcal_people_smooth_ece"]
    assert error["ci_low"] <= error["floor"] <= error["ci_high"]
    score = by_metric["semcal_people_brier"]
    assert score["value"] == pytest.approx(score["floor"], abs=0.02)


def test_a_prediction_by_hand():
    confidence, label, score = prediction(["a"] * 4, {"a": 0.75, "(other)": 0.25}, np.random.default_rng(0))
    assert (confidence, label, score) == (1.0, 0.75, pytest.approx(1 - 2 * 0.75 + 1))
    # What people pooled as other is nobody's answer in particular.
    assert prediction(["x"] * 4, {"(other)": 1.0}, np.random.default_rng(0))[1:] == (0.0, 2.0)
