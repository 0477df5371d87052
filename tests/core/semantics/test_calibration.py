"""Confidences and calibration errors against closed forms, scikit-learn, and worlds whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import brentq

from pipeline.core.semantics.calibration import (
    brier_score,
    calibration_bins,
    consistency_band,
    refinement,
    smooth_calibration_error,
)
from pipeline.core.semantics.confidence import held_out_confidence, modal_class, modal_confidence
from pipeline.core.semantics.discrimination import (
    auroc,
    length_audit,
    prediction_rejection_ratio,
    risk_coverage_area,
)

SIZES = st.integers(3, 40)
CONFIDENCES = SIZES.flatmap(
    lambda n: st.tuples(arrays(float, n, elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])), arrays(bool, n))
)


@pytest.mark.parametrize(
    ("classes", "first", "second"), [(2, 0.555, 0.5), (4, 0.324, 0.249), (10, 0.173, 0.1), (20, 0.117, 0.05)]
)
def test_confidences_of_uniform_laws(classes, first, second):
    rng = np.random.default_rng(classes)
    counts = rng.multinomial(50, np.full(classes, 1 / classes), size=4000)
    assert modal_confidence(counts).mean() == pytest.approx(first, abs=0.003)
    assert held_out_confidence(counts, rng).mean() == pytest.approx(second, abs=0.004)


def test_two_answers_of_two_classes():
    # Both the same with probability 1/2: 1/2 * 1 + 1/2 * 1/2.
    assert modal_confidence([[2, 0], [1, 1], [1, 1], [0, 2]]).mean() == 0.75
    rng = np.random.default_rng(0)
    assert held_out_confidence([[2, 0], [1, 1]], rng).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="at least 2"):
        held_out_confidence([[5], [1]], rng)


def test_halves_are_drawn_without_replacement():
    counts, rng = np.array([5, 3, 1]), np.random.default_rng(0)
    halves = rng.multivariate_hypergeometric(counts, 4, size=20000)
    modal = (halves + rng.random(halves.shape)).argmax(axis=1)
    expected = ((counts - halves)[np.arange(len(halves)), modal] / 5).mean()
    assert held_out_confidence(counts, rng, splits=20000) == pytest.approx(expected, abs=0.005)


def test_ties_of_the_modal_class_are_broken_at_random():
    rng = np.random.default_rng(0)
    found = np.bincount(modal_class(np.tile([3, 0, 3], (400, 1)), rng), minlength=3)
    assert found[1] == 0 and min(found[0], found[2]) > 150


@pytest.mark.parametrize(("strategy", "kind"), [("uniform", "width"), ("quantile", "mass")])
def test_bins_are_those_of_scikit_learn(strategy, kind):
    oracle = pytest.importorskip("sklearn.calibration")
    rng = np.random.default_rng(1)
    confidence = np.round(rng.random(500), 2)
    labels = rng.random(500) < confidence**2
    frequency, mean = oracle.calibration_curve(labels, confidence, n_bins=10, strategy=strategy)
    found = calibration_bins(confidence, labels, kind)
    filled = found.sizes > 0
    np.testing.assert_allclose(found.frequency[filled], frequency)
    np.testing.assert_allclose(found.confidence[filled], mean)
    assert found.sizes.sum() == 500


def test_binned_errors_by_hand():
    always_wrong = np.r_[np.full(5, 0.2), np.full(5, 0.8)], np.r_[np.zeros(5), np.ones(5)]
    assert calibration_bins(*always_wrong).error == pytest.approx(0.2)
    assert calibration_bins(*always_wrong, "mass").error == pytest.approx(0.2)
    # One confidence: one bin.
    constant = calibration_bins(np.full(4, 0.9), np.array([1, 1, 0, 0]), "mass")
    assert constant.sizes.tolist() == [4] and constant.error == pytest.approx(0.4)


def test_smooth_error_of_known_predictors():
    labels = np.r_[np.ones(600), np.zeros(400)]
    assert smooth_calibration_error(np.full(1000, 0.9), labels) == pytest.approx(0.3, abs=1e-4)
    confidence = np.r_[np.full(500, 0.2), np.full(500, 0.8)]
    assert smooth_calibration_error(confidence, confidence > 0.5) == pytest.approx(0.18, abs=0.002)
    assert smooth_calibration_error(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 0
    # What a calibrated predictor scores is not 0.
    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    assert smooth_calibration_error(confidence, rng.random(3000) < confidence) == pytest.approx(0.03, abs=5e-4)


def test_smooth_error_is_its_definition_written_out():
    rng = np.random.default_rng(2)
    confidence = rng.random(12)
    labels = (rng.random(12) < confidence**2).astype(float)

    def error(width):
        def residual(t):
            images = [confidence + 2 * k for k in range(-6, 7)] + [2 * k - confidence for k in range(-6, 7)]
            kernel = sum(np.exp(-((t - place) ** 2) / (2 * width**2)) for place in images)
            return abs(((labels - confidence) * kernel).mean()) / (width * np.sqrt(2 * np.pi))

        return quad(residual, 0, 1, limit=200)[0]

    expected = brentq(lambda width: error(width) - width, 0.02, 1)
    assert smooth_calibration_error(confidence, labels) == pytest.approx(expected, abs=1e-3)


@given(CONFIDENCES)
def test_calibration_errors_are_bounded_and_refinement_is_below_the_brier_score(pair):
    confidence, labels = pair[0], pair[1].astype(float)
    total = np.abs(labels - confidence).mean()
    assert 0 <= smooth_calibration_error(confidence, labels) <= total + 1e-6
    for kind in ("width", "mass"):
        bins = calibration_bins(confidence, labels, kind)
        assert -1e-12 <= bins.error <= total + 1e-9 and bins.sizes.sum() == len(labels)
    assert -1e-12 <= refinement(confidence, labels) <= brier_score(confidence, labels) + 1e-12
    assert refinement(confidence, labels) <= labels.var() + 1e-12


def test_refinement_is_the_score_after_isotonic_regression():
    oracle = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(3)
    confidence = np.round(rng.random(300), 1)
    labels = (rng.random(300) < confidence**2).astype(float)
    recalibrated = oracle.IsotonicRegression().fit_transform(confidence, labels)
    assert refinement(confidence, labels) == pytest.approx(brier_score(recalibrated, labels))


def test_a_calibrated_predictor_lies_within_the_band():
    rng = np.random.default_rng(4)
    confidence = rng.random(2000)
    low, high = consistency_band(confidence, rng)
    inside = [
        (low <= row) & (row <= high)
        for row in (calibration_bins(confidence, rng.random(2000) < confidence).frequency for _ in range(50))
    ]
    assert 0.9 < np.mean(inside) < 0.99
    overconfident = calibration_bins(confidence, rng.random(2000) < confidence / 2).frequency
    assert (overconfident < low)[2:].all()


def rejection_ratio_by_areas(score, labels):
    """The definition written out; equal scores share their errors evenly."""

    def area(by):
        order = np.argsort(-by, kind="stable")
        shared = [(~labels)[by == value].mean() for value in by[order]]
        return np.trapezoid(np.concatenate([[0.0], np.cumsum(shared)]) / len(labels), dx=1 / len(labels))

    at_random = (~labels).mean() / 2
    return (at_random - area(score)) / (at_random - area(labels.astype(float)))


def test_weighted_areas_are_those_of_repetitions():
    rng = np.random.default_rng(3)
    score, labels = np.round(rng.random(30), 1), rng.random(30) < 0.6
    weights = np.vstack([rng.multinomial(30, np.full(30, 1 / 30), size=4), labels])
    found = auroc(score, labels, weights)
    assert np.isnan(found[4])
    for row, area in zip(weights[:4], found, strict=False):
        assert area == pytest.approx(auroc(np.repeat(score, row), np.repeat(labels, row)))


@given(CONFIDENCES)
def test_discrimination_against_scikit_learn_and_the_rejection_ratio_against_the_auroc(pair):
    score, labels = pair
    if labels.all() or not labels.any():
        assert np.isnan(auroc(score, labels)) and np.isnan(prediction_rejection_ratio(score, labels))
        return
    oracle = pytest.importorskip("sklearn.metrics")
    assert auroc(score, labels) == pytest.approx(oracle.roc_auc_score(labels, score))
    assert prediction_rejection_ratio(score, labels) == pytest.approx(rejection_ratio_by_areas(score, labels))
    assert auroc(-score, labels) == pytest.approx(1 - auroc(score, labels))
    shuffled = np.random.default_rng(0).permutation(len(score))
    assert risk_coverage_area(score[shuffled], labels[shuffled]) == pytest.approx(risk_coverage_area(score, labels))
    assert risk_coverage_area(labels.astype(float), labels) <= risk_coverage_area(score, labels) + 1e-12


def test_risk_by_coverage_by_hand():
    # Errors among the first 1, 2, 3 and 4: 0, 1, 1 and 2.
    found = risk_coverage_area(np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 0, 1, 0]))
    assert found == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert risk_coverage_area(np.ones(4), np.array([1, 0, 1, 0])) == pytest.approx(0.5)


def test_a_score_that_is_the_length_alone():
    rng = np.random.default_rng(5)
    lengths = rng.poisson(20, 20_000) + 1.0
    clean = rng.random(20_000) < 0.6
    biased = np.where(rng.random(20_000) < 0.02 * (lengths - 1), False, clean)
    found = [length_audit(-lengths, labels, lengths) for labels in (clean, biased)]
    assert found[0]["auroc_length"] == auroc(-lengths, clean) == pytest.approx(0.5, abs=0.02)
    # With labels whose errors go with the length, the score looks as if it knew something.
    area = auroc(-lengths, biased)
    assert area == found[1]["auroc_length"] > 0.55 and found[1]["length_label_spearman"] < -0.08
    assert found[1]["length_score_spearman"] == pytest.approx(-1)
    assert abs(found[1]["auroc_within_length"] - 0.5) < (area - 0.5) / 2
    # A score that knows more than the length keeps its AUROC within lengths.
    score = clean + rng.normal(size=20_000)
    assert length_audit(score, clean, lengths)["auroc_within_length"] == pytest.approx(auroc(score, clean), abs=0.01)
