"""Semantic calibration: closed forms, an oracle written out, and worlds in which the verdict is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from pipeline.axes.questions.people import people_splits
from pipeline.axes.semcal.evaluate import (
    FLOORS,
    HELD_OUT_ERROR,
    SCORES,
    SPLITS,
    STATISTICS,
    held_out_confidence,
    people_row,
    predictions,
    simulated_floor,
    smooth_calibration_error,
    unbiased_brier_score,
)
from pipeline.axes.semcal.report import calibration_verdict
from pipeline.core.statistics.summarise import summarise
from tests.axes.test_people import world  # noqa: F401

QUESTIONS, ANSWERS, CLASSES, RUNS = 300, 20, 6, 30
ERROR, SCORE = "semcal_smooth_ece", "semcal_brier"


@pytest.mark.parametrize(("classes", "expected"), [(2, 0.5), (4, 0.249), (10, 0.1), (20, 0.05)])
def test_confidences_of_uniform_laws(classes, expected):
    rng = np.random.default_rng(classes)
    counts = rng.multinomial(50, np.full(classes, 1 / classes), size=4000)
    assert held_out_confidence(counts, rng).mean() == pytest.approx(expected, abs=0.004)


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
    names = {"prompt_id": np.arange(QUESTIONS).astype(str), "condition": condition}
    return pd.DataFrame({**dict(zip(SCORES, found, strict=True)), **names, "doubt": -found[0], "right": found[1]})


def answers_of(kind, laws, sharp, rng):
    """Counts over the classes, and 20 further wrong ones: by the law itself, as base, or damaged."""
    right, wrong = np.zeros((QUESTIONS, CLASSES), dtype=np.int64), np.zeros((QUESTIONS, ANSWERS), dtype=np.int64)
    if kind == "collapsed":
        wrong[:] = 1
    elif kind == "refusing":
        wrong[:, 0] = ANSWERS
    else:
        right = rng.multinomial(ANSWERS, laws if kind == "recalibrated" else sharp)
    return np.hstack([right, wrong])


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("collapsed", 0, 0), ("refusing", 0, 0), ("unchanged", 0, 0.05), ("recalibrated", 0.9, 1)],
)
def test_only_a_recalibrated_model_is_better(kind, least, most):
    statistics = {name: STATISTICS["gold"][name] for name in (ERROR, SCORE)}
    better = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        laws, sharp, truth = overconfident_world(rng)
        truth = np.hstack([truth, np.zeros((QUESTIONS, ANSWERS))])
        sides = [
            rows_of(answers_of(each, laws, sharp, rng), truth, name, rng)
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
    rows = rows.assign(floor_smooth_ece=simulated_floor(labels, rng, 100))
    options = {"floors": FLOORS, "seed": 0, "names": (), "replicates": 200}
    found = {row["metric"]: row for row in summarise(rows, STATISTICS["gold"], **options)}
    assert found[ERROR]["ci_low"] <= found[ERROR]["floor"] <= found[ERROR]["ci_high"] and found[ERROR]["floor"] < 0.08
    assert found["semcal_auroc"]["value"] > 0.55 and found["semcal_accuracy"]["n"] == QUESTIONS


def test_other_people_are_as_calibrated_against_people_as_the_floor_says(world):  # noqa: F811
    rows = pd.DataFrame(
        [
            {"prompt_id": q.prompt_id, "condition": "base"}
            | people_row(people_splits(q, len(own), seed=0, number=SPLITS), own, np.random.default_rng(7))
            for q, own in zip(*world, strict=True)
        ]
    )
    rows = rows.assign(floor_smooth_ece=float(HELD_OUT_ERROR.function(rows, np.ones(len(rows)))))
    options = {"floors": FLOORS, "seed": 0, "names": (), "replicates": 100}
    found = {row["metric"]: row for row in summarise(rows, STATISTICS["people"], **options)}
    error, score = found["semcal_people_smooth_ece"], found["semcal_people_brier"]
    assert error["ci_low"] <= error["floor"] <= error["ci_high"]
    assert score["value"] == pytest.approx(score["floor"], abs=0.02)
