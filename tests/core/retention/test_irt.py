"""Item response theory on synthetic items whose abilities and performance are known."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit

from pipeline.core.retention.irt import IrtScenario, balance_weights, estimate_performance, fit_abilities, fit_ability

ONCE = np.ones((1, 100))


def resample_counts(num_items, replicates, seed):
    return np.random.default_rng(seed).multinomial(num_items, np.full(num_items, 1 / num_items), size=replicates)


def scenario(num_items=1500, num_seen=100, dimensions=2, mixing_weight=0.4, seed=0, weights=None) -> IrtScenario:
    rng = np.random.default_rng(seed)
    return IrtScenario(
        discriminations=rng.lognormal(-0.2, 0.4, size=(dimensions, num_items)),
        offsets=rng.normal(0, 1.2, num_items),
        seen=rng.choice(num_items, num_seen, replace=False),
        seen_weights=rng.dirichlet(np.full(num_seen, 5.0)),
        balance_weights=np.ones(num_items) if weights is None else weights,
        mixing_weight=mixing_weight,
    )


def answers(items: IrtScenario, ability, seed=1) -> np.ndarray:
    """0/1 answers to all items."""
    chances = expit(ability @ items.discriminations - items.offsets)
    return (np.random.default_rng(seed).random(len(chances)) < chances).astype(float)


def test_one_dimension_by_hand():
    """Two equal items, one right: the chance of each is 1/2, so theta = b / a."""
    items = np.array([1.0, 0.0]), np.array([[2.0, 2.0]]), np.array([3.0, 3.0])
    assert fit_ability(*items) == pytest.approx([1.5])
    # Whole Newton steps from so far away would go further and further off.
    for start in (-10.0, 8.0):
        found = fit_abilities(items[0], np.ones((1, 2)), *items[1:], start=np.array([start]))
        assert found[0] == pytest.approx([1.5], abs=1e-5)
    # A fraction is so much of a right answer: sigmoid(theta) = 0.8.
    ability = fit_ability(np.array([0.7, 0.9]), np.array([[1.0, 1.0]]), np.zeros(2))
    assert ability == pytest.approx([math.log(4)], abs=1e-4)


def test_newton_on_resamples_equals_bfgs_on_repeated_items():
    items = scenario(dimensions=3, seed=2)
    a, b = items.discriminations[:, items.seen], items.offsets[items.seen]
    values = answers(items, [0.4, -0.2, 0.6])[items.seen]
    counts = resample_counts(100, 8, 0)
    assert (counts.sum(axis=1) == 100).all()
    found = fit_abilities(values, counts, a, b, start=fit_ability(values, a, b))
    for row, expected in zip(counts.astype(int), found, strict=True):
        chosen = np.repeat(np.arange(100), row)
        assert fit_ability(values[chosen], a[:, chosen], b[chosen]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_wrong_or_all_right_stays_finite(value):
    items = scenario()
    values = np.full(100, value)
    assert estimate_performance(items, values, ONCE) == pytest.approx([value], abs=1e-3)
    drawn = estimate_performance(items, values, resample_counts(100, 50, 0))
    assert drawn == pytest.approx(np.full(50, value), abs=1e-2)


def test_estimates_by_their_formulas():
    weights = balance_weights([np.arange(500), np.arange(500, 1500)], 1500)
    items = scenario(weights=weights)
    rng = np.random.default_rng(7)
    items = dataclasses.replace(items, seen_weights=rng.dirichlet(np.ones(100)))
    values = answers(items, [0.5, 0.1])[items.seen]
    (found,) = estimate_performance(items, values, ONCE)
    ability = fit_ability(values, items.discriminations[:, items.seen], items.offsets[items.seen])
    seen = weighted = unseen = 0.0
    for position in range(1500):
        if position in items.seen:
            where = items.seen.tolist().index(position)
            seen += weights[position] * values[where] / 100
            weighted += items.seen_weights[where] * values[where]
        else:
            z = sum(items.discriminations[d, position] * ability[d] for d in range(2)) - items.offsets[position]
            unseen += weights[position] / (1 + math.exp(-z)) / 1400
    assert found == pytest.approx(0.4 * weighted + 0.6 * (100 / 1500 * seen + 1400 / 1500 * unseen))


def test_bootstrap_error_is_that_of_drawing_other_items():
    """Standard error over resampled items against the spread over fresh random items for the same model."""
    items = scenario(num_items=3000, mixing_weight=0.5)
    all_answers = answers(items, [0.6, -0.2])
    values = all_answers[items.seen]
    drawn = estimate_performance(items, values, resample_counts(100, 400, 0))
    assert drawn.mean() == pytest.approx(estimate_performance(items, values, ONCE)[0], abs=0.02)
    fresh = []
    for seed in range(200):
        seen = np.random.default_rng(seed).choice(3000, 100, replace=False)
        again = dataclasses.replace(items, seen=seen)
        fresh.append(estimate_performance(again, all_answers[seen], ONCE)[0])
    assert drawn.std() == pytest.approx(np.std(fresh), rel=0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.zeros(7)}, "discriminations have shape"),
        ({"seen_weights": np.ones(3)}, "weights do not have one entry"),
        ({"seen": np.arange(1450, 1550)}, "positions in 0..1499"),
        ({"offsets": np.full(1500, math.nan)}, "finite"),
        ({"mixing_weight": 1.2}, "mixing weight is 1.2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(scenario(), **change)
