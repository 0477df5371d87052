"""Inv-Entropy: its closed form, where it is blind, and temperature sensitivity against its null."""

import itertools
import math

import numpy as np
import pytest

from pipeline.core.semantics.inverse_entropy import (
    cosine_similarities,
    dispersion,
    mean_measures,
    measures,
    rise_by_chance,
    rises_with_temperature,
    transitions,
)
from pipeline.errors import DomainError

STATES = 10


def alike(apart: float, size: int = STATES) -> np.ndarray:
    """Similarities of states that are all as far from each other."""
    return np.full((size, size), 1 - apart) + apart * np.eye(size)


def inv_entropy(inputs, outputs) -> float:
    return float(measures(inputs, outputs)["inv_entropy_nats"])


@pytest.mark.parametrize(
    ("outputs", "value"), [(0.0, 2.3026), (0.25, 2.3181), (0.5, 2.3458), (0.75, 2.4102), (1.0, 2.7231)]
)
def test_the_closed_form_of_even_dispersions(outputs, value):
    n, e_x = STATES - 1, 0.3
    c = (1 + n - n * e_x - n * outputs + n * e_x * outputs) / ((n + 1 - n * e_x) * (n + 1 - n * outputs))
    found = inv_entropy(alike(e_x), alike(outputs))
    assert found == pytest.approx(-(n + 1) * c * math.log(c), abs=1e-12) == pytest.approx(value, abs=5e-5)


def test_two_even_clusters_of_outputs():
    cluster = np.arange(STATES) < STATES // 2
    outputs = (cluster[:, None] == cluster).astype(float)
    assert inv_entropy(alike(0.3), outputs) == pytest.approx(2.3553, abs=5e-5)


def test_it_is_blind_where_all_inputs_are_the_same():
    points = np.random.default_rng(0).normal(size=(STATES, 3))
    for outputs in (alike(0.0), alike(1.0), cosine_similarities(points)):
        assert inv_entropy(np.ones((STATES, STATES)), outputs) == pytest.approx(math.log(STATES), abs=1e-12)


def test_same_outputs_give_the_entropy_of_one_step_from_a_uniform_start():
    inputs = cosine_similarities(np.random.default_rng(1).normal(size=(STATES, 2)))
    law = transitions(inputs).mean(axis=0)
    found = measures(inputs, np.ones((STATES, STATES)))
    assert found["inv_entropy_nats"] == pytest.approx(-(law * np.log(law)).sum(), abs=1e-12)
    # The direct walk forgets the prompts there, and the laws differ by what the prompts' chain does.
    assert found["ni_entropy_nats"] == pytest.approx(math.log(STATES), abs=1e-12)
    assert found["max_probability"] == pytest.approx(1 / STATES, abs=1e-12)
    assert found["wasserstein"] == pytest.approx(np.maximum(law - 1 / STATES, 0).sum(), abs=1e-12)


def test_states_without_any_similarity_give_nothing():
    found = measures(np.eye(STATES), np.eye(STATES))
    assert found["inv_entropy_nats"] == found["ni_entropy_nats"] == found["wasserstein"] == 0
    assert found["max_probability"] == found["input_dispersion"] == found["output_dispersion"] == 1
    # Which is no certainty: it grows with the outputs' dispersion only while each term is below 1 / e.
    assert inv_entropy(alike(1.0), alike(0.9)) > inv_entropy(alike(1.0), np.ones((STATES, STATES))) > 2


def test_the_order_of_states_does_not_matter():
    rng = np.random.default_rng(2)
    inputs, outputs = (cosine_similarities(rng.normal(size=(STATES, 4))) for _ in range(2))
    order = rng.permutation(STATES)
    first, second = (
        measures(inputs[np.ix_(places, places)], outputs[np.ix_(places, places)])
        for places in (np.arange(STATES), order)
    )
    for name, value in first.items():
        assert value == pytest.approx(second[name], abs=1e-12), name


def test_inverse_and_direct_walks_have_the_same_trace_and_other_terms():
    rng = np.random.default_rng(3)
    inputs, outputs = (rng.random((3, 3)) for _ in range(2))
    by_hand_x, by_hand_y = inputs / inputs.sum(1)[:, None], outputs / outputs.sum(1)[:, None]
    inverse, direct = np.diag(by_hand_y @ by_hand_x), np.diag(by_hand_x @ by_hand_y)
    found = measures(inputs, outputs)
    assert found["inv_entropy_nats"] == pytest.approx(-(inverse * np.log(inverse)).sum())
    assert found["ni_entropy_nats"] == pytest.approx(-(direct * np.log(direct)).sum())
    assert inverse.sum() == pytest.approx(direct.sum()) and not np.allclose(inverse, direct)
    assert found["max_probability"] == direct.max()


@pytest.mark.parametrize("name", ["inv_entropy_nats", "ni_entropy_nats", "max_probability"])
def test_measures_grow_as_answers_differ(name):
    values = [measures(alike(0.3), alike(apart))[name] for apart in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert (np.diff(values) > 0).all()


def test_draws_average_over_one_answer_per_prompt():
    # Every choice of one of two answers to each of three prompts, against many draws.
    answers = np.array([[0, 1], [1, 2], [0, 0]])
    similarity = np.array([[1, 0.2, 0.6], [0.2, 1, 0.4], [0.6, 0.4, 1]])
    inputs = alike(0.3, 3)
    exact = [
        measures(inputs, similarity[np.ix_(chosen, chosen)])["inv_entropy_nats"]
        for chosen in itertools.product(*answers)
    ]
    found = mean_measures(inputs, answers, similarity, draws=20_000, rng=np.random.default_rng(0))
    assert found["inv_entropy_nats"] == pytest.approx(np.mean(exact), abs=3e-4)
    assert found["inv_entropy_excess_nats"] == pytest.approx(found["inv_entropy_nats"] - math.log(3))
    assert found["input_dispersion"] == pytest.approx(0.3)


def test_dispersion_is_that_of_pairs_alone():
    assert dispersion(np.stack([alike(0.3), alike(1.0)])) == pytest.approx([0.3, 1.0])


def test_cosines_are_moved_to_the_unit_interval():
    found = cosine_similarities([[1, 0], [0, 2], [-3, 0], [0, 0]])
    assert found == pytest.approx(
        np.array([[1, 0.5, 0, 0.5], [0.5, 1, 0.5, 0.5], [0, 0.5, 1, 0.5], [0.5, 0.5, 0.5, 1]])
    )


@pytest.mark.parametrize(
    ("similarity", "message"),
    [
        ([[1, -0.1], [-0.1, 1]], "similarities must be 0 or more, got -0.1"),
        ([[1, math.nan], [0, 1]], "similarities must be 0 or more"),
        ([[0, 0], [0, 1]], "every state needs a similarity above 0"),
    ],
)
def test_bad_similarities_are_named(similarity, message):
    with pytest.raises(DomainError, match=message):
        transitions(similarity)


@pytest.mark.parametrize(("temperatures", "null"), [(2, 0.5), (3, 1 / 6), (4, 1 / 24)])
def test_temperature_sensitivity_of_noise_is_its_null(temperatures, null):
    noise = np.random.default_rng(0).normal(size=(200_000, temperatures))
    assert rise_by_chance(temperatures) == pytest.approx(null)
    assert rises_with_temperature(noise).mean() == pytest.approx(null, abs=0.004)


def test_a_constant_never_rises_and_a_rising_measure_always():
    assert not rises_with_temperature(np.full((5, 4), 2.3)).any()
    # Equal but for rounding.
    assert not rises_with_temperature([0.1 + 0.2, 0.3, 0.3 + 1e-12])
    assert rises_with_temperature([[0.1, 0.2, 0.3, 0.4]]).all() and not rises_with_temperature([0.1, 0.3, 0.2])
