"""Energy distance against SciPy, numerical integration and its expectation for a perfect sampler."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from pipeline.axes.structured.energy import EnergyReference
from pipeline.core.laws.families import get_family
from pipeline.core.laws.quantiles import quantile
from pipeline.core.random_streams import random_stream

LAWS = {
    "gaussian": {"mu": 1.0, "sigma": 2.0},
    "gamma": {"alpha": 1.5, "beta": 2.0},
    "beta": {"alpha": 0.5, "beta": 0.5},
    "poisson": {"lambda": 4.0},
    "skellam": {"mu1": 3.0, "mu2": 2.0},
    "bernoulli": {"p": 0.3},
}


def whole(reference, samples):
    ordered = np.sort(samples)
    return float(reference.distances(ordered, np.ones((1, len(ordered)), dtype=bool))[0])


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_equals_scipys(family, shift):
    law = get_family(family).law_at(LAWS[family])
    samples = quantile(law, random_stream(1, family).random(120)) + shift
    values = quantile(law, (np.arange(200_000) + 0.5) / 200_000)
    q05, q95 = quantile(law, np.array([0.05, 0.95]))
    expected = stats.energy_distance(samples, values) / math.sqrt(q95 - q05)
    assert whole(EnergyReference(law), samples) == pytest.approx(expected, rel=2e-3, abs=2e-4)


def test_cauchy_is_finite_and_equals_the_integral():
    law = get_family("cauchy").law_at({"x0": 0.0, "gamma": 1.0})
    samples = np.array([-40.0, -0.5, 0.0, 2.0, 2.0, 1e4])
    edges = [-np.inf, *np.unique(samples), np.inf]

    def squared(x, share):
        return (share - (0.5 + math.atan(x) / math.pi)) ** 2

    total = sum(
        integrate.quad(squared, a, b, args=((samples <= a).mean(),), limit=400)[0] for a, b in itertools.pairwise(edges)
    )
    width = 2 * math.tan(0.45 * math.pi)
    assert whole(EnergyReference(law), samples) == pytest.approx(math.sqrt(2 * total / width), rel=2e-3)


def test_single_value_of_a_uniform_law_by_hand():
    # U(0, 1) against one answer 0: integral of (1 - x)^2 = 1/3; Q95 - Q05 = 0.9.
    law = get_family("uniform").law_at({"a": 0.0, "b": 1.0})
    assert whole(EnergyReference(law), np.zeros(1)) == pytest.approx(math.sqrt(2 / 3 / 0.9), rel=1e-4)


def test_parts_equal_their_own_distance():
    law = get_family("gaussian").law_at(LAWS["gaussian"])
    reference, ordered = EnergyReference(law), np.sort(random_stream(2).normal(1, 2, 30))
    chosen = random_stream(3).random((4, 30)) < 0.5
    found = reference.distances(ordered, chosen)
    assert found == pytest.approx([whole(reference, ordered[row]) for row in chosen], rel=1e-4)


def test_floor_has_the_expectation_of_a_perfect_sampler():
    # E D^2 = 2 / n * integral of F (1 - F); for Exp(1) the integral is 1/2 and the width log 19.
    law = get_family("exponential").law_at({"lambda": 1.0})
    floor = EnergyReference(law).floor(random_stream(4).random((4000, 25)))
    spread = (floor**2).std() / math.sqrt(4000)
    assert (floor**2).mean() == pytest.approx(1 / 25 / math.log(19), abs=4 * spread)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_floor_equals_the_distance_of_draws(family):
    law = get_family(family).law_at(LAWS[family])
    reference, pits = EnergyReference(law), random_stream(5).random((20, 60))
    direct = [whole(reference, quantile(law, row)) for row in pits]
    assert reference.floor(pits) == pytest.approx(direct, rel=0.03)


def test_undefined_without_samples_or_width():
    reference = EnergyReference(get_family("gaussian").law_at(LAWS["gaussian"]))
    assert np.isnan(reference.distances(np.array([]), np.ones((2, 0), dtype=bool))).all()
    assert np.isnan(reference.floor(np.empty((2, 0)))).all()
    assert math.isnan(whole(EnergyReference(get_family("bernoulli").law_at({"p": 0.01})), np.zeros(3)))
