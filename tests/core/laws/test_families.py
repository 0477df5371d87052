"""Families: domains, SciPy parameterisations and grids."""

import math

import numpy as np
import pytest

from pipeline.core.laws.families import FAMILIES, get_family
from pipeline.core.prompts.structured import build_split, make_prompt
from pipeline.errors import DomainError

# Means in closed form from the prompt's own parameterisation (textbook formulas, not SciPy's).
MEANS = {
    "uniform": ({"a": 1.0, "b": 4.0}, 2.5),
    "gaussian": ({"mu": 1.5, "sigma": 2.0}, 1.5),
    "beta": ({"alpha": 2.0, "beta": 3.0}, 2 / 5),
    "binomial": ({"n": 12.0, "p": 0.25}, 3.0),
    "exponential": ({"lambda": 4.0}, 1 / 4),
    "geometric": ({"p": 0.2}, 5.0),
    "negative_binomial": ({"r": 3.0, "p": 0.25}, 9.0),
    "lognormal": ({"mu": 0.5, "sigma": 0.8}, math.exp(0.5 + 0.32)),
    "triangular": ({"a": 0.0, "c": 1.0, "b": 5.0}, 2.0),
    "rayleigh": ({"sigma": 2.0}, 2 * math.sqrt(math.pi / 2)),
    "student_t": ({"nu": 4.0}, 0.0),
    "chi_square": ({"nu": 7.0}, 7.0),
    "f_distribution": ({"d1": 5.0, "d2": 10.0}, 10 / 8),
    "gamma": ({"alpha": 3.0, "beta": 2.0}, 6.0),
    "laplace": ({"mu": -1.0, "b": 2.0}, -1.0),
    "logistic": ({"mu": 0.25, "s": 2.0}, 0.25),
    "pareto": ({"alpha": 3.0, "xm": 2.0}, 3.0),
    "hypergeometric": ({"M": 50.0, "K": 10.0, "N": 15.0}, 3.0),
    "gumbel": ({"mu": 1.0, "beta": 2.0}, 1 + 2 * 0.5772156649015329),
    "skellam": ({"mu1": 5.0, "mu2": 2.0}, 3.0),
    "beta_binomial": ({"n": 10.0, "alpha": 2.0, "beta": 3.0}, 4.0),
    "lomax": ({"alpha": 3.0, "lambda": 4.0}, 2.0),
    "inverse_gaussian": ({"mu": 1.5, "lambda": 3.0}, 1.5),
    "bernoulli": ({"p": 0.3}, 0.3),
    "poisson": ({"lambda": 4.5}, 4.5),
    "weibull": ({"k": 2.0, "lambda": 3.0}, 3 * math.gamma(1.5)),
    "maxwell": ({"scale": 2.0}, 4 * math.sqrt(2 / math.pi)),
    "chi": ({"df": 3.0}, math.sqrt(2) * math.gamma(2) / math.gamma(1.5)),
    "truncnorm": ({"mu": 0.0, "sigma": 1.0, "lower": -1.0, "upper": 1.0}, 0.0),
}


@pytest.mark.parametrize("family", MEANS)
def test_mean_of_the_law(family):
    parameters, mean = MEANS[family]
    assert get_family(family).law_at(parameters).freeze().mean() == pytest.approx(mean, rel=1e-9, abs=1e-12)


def test_cauchy_quartiles():
    law = get_family("cauchy").law_at({"x0": 1.0, "gamma": 2.0}).freeze()
    assert law.ppf([0.25, 0.5, 0.75]) == pytest.approx([-1.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("family", "parameters", "named"),
    [
        ("gaussian", {"mu": 0.0, "sigma": 0.0}, "sigma"),
        ("gaussian", {"mu": math.nan, "sigma": 1.0}, "mu"),
        ("gaussian", {"mu": 0.0}, "parameters"),
        ("binomial", {"n": 2.5, "p": 0.5}, "n=2.5"),
        ("bernoulli", {"p": 1.5}, "p=1.5"),
        ("uniform", {"a": 2.0, "b": 2.0}, "a <= b"),
        ("triangular", {"a": 0.0, "c": 3.0, "b": 2.0}, "a <= c <= b"),
        ("hypergeometric", {"M": 10.0, "K": 20.0, "N": 5.0}, "SciPy"),
        ("gausian", {"mu": 0.0, "sigma": 1.0}, "gausian"),
    ],
)
def test_parameters_outside_their_domain_are_named(family, parameters, named):
    with pytest.raises(DomainError, match=named):
        make_prompt(family, parameters, "train")


def test_subset_is_balanced_seeded_and_keeps_prompt_ids():
    full = {prompt.prompt_id for prompt in build_split("train")}
    subset = build_split("train", prompts_per_family=5, seed=3)
    assert len(subset) == 24 * 5
    assert {prompt.prompt_id for prompt in subset} < full
    assert subset == build_split("train", prompts_per_family=5, seed=3)
    assert subset != build_split("train", prompts_per_family=5, seed=4)


def test_interpolated_points_lie_inside_the_training_grid():
    for family in (family for family in FAMILIES.values() if family.seen):
        ranges = {axis.name: (min(axis.values), max(axis.values)) for axis in family.train_grid}
        of_training = list(family.grid_points("train"))
        points = {tuple(point.values()): point for point in family.grid_points("test", "interpolated")}
        assert len(points) == 3 and not any(point in of_training for point in points.values())
        for point in points.values():
            family.law_at(point)
            # Parameters that the prompt names as the grid does; the others are made from widths and shares.
            own = [name for name in point if name in ranges and name != "N"]
            assert own and all(ranges[name][0] < point[name] < ranges[name][1] for name in own)


def test_fresh_parameters_lie_inside_the_training_grid_and_are_no_unseen_prompts():
    made = build_split("train", prompts_per_family=40, fresh=True, seed=1)
    assert len({prompt.text for prompt in made}) == len(made) == 40 * sum(family.seen for family in FAMILIES.values())
    tested = {p.text for split in ("unseen", "ood") for p in build_split(split)}
    tested |= {p.text for p in build_split("unseen", selection="interpolated")}
    assert not tested & {prompt.text for prompt in made}
    for prompt in made:
        for axis in FAMILIES[prompt.family].train_grid:
            value = prompt.parameters.get(axis.name, axis.values[0])
            assert min(axis.values) <= value <= max(axis.values) and (axis.spacing != "count" or value == int(value))
    # Half of a log axis lies below its geometric mean; of uniform draws it were a quarter.
    rates = [
        p.parameters["lambda"]
        for p in build_split("train", families=["exponential"], prompts_per_family=400, fresh=True)
    ]
    assert abs(np.mean(np.array(rates) < (0.5 * 5) ** 0.5) - 0.5) < 4 * 0.5 / 400**0.5
    assert made == build_split("train", prompts_per_family=40, fresh=True, seed=1)
    assert made != build_split("train", prompts_per_family=40, fresh=True, seed=2)
