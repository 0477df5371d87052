"""The 30 distribution families, each defined here and nowhere else (arXiv:2605.11845, Table 5 and Appendix C.1)."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from pipeline.core.laws.family import Family, Law, count, counts, linear, listed, log, positive, probability, real
from pipeline.errors import DomainError, did_you_mean


def _scipy(name: str, **kwargs: float) -> Law:
    return Law(name, {key: float(value) for key, value in kwargs.items()})


def _family(names: tuple[str, str, str], law: Callable[..., Law], *parameters: tuple, **properties) -> Family:
    """A family whose grids are over its prompt's parameters: (name, domain, spacing, arguments of its training axis or
    None where it is held out, of its test axis, values at the selected test points) each."""
    return Family(
        *names,
        parameters=tuple(domain(name) for name, domain, *_ in parameters),
        law=law,
        train_grid=tuple(spacing(name, *train) for name, _, spacing, train, *_ in parameters if train is not None),
        test_grid=tuple(spacing(name, *test) for name, _, spacing, _, test, _ in parameters),
        selected=tuple(
            {name: float(value) for (name, *_), value in zip(parameters, point, strict=True)}
            for point in zip(*(np.atleast_1d(values) for *_, values in parameters), strict=True)
        ),
        **properties,
    )


def _location_scale(names: tuple[str, str, str], location: str, scale: str, scipy_name: str) -> Family:
    return _family(
        names,
        lambda loc, scale: _scipy(scipy_name, loc=loc, scale=scale),
        (location, real, linear, (-2, 2, 11), (2.5, 4, 6), 3.5),
        (scale, positive, log, (0.5, 2, 11), (2.25, 3.5, 6), 3.0),
    )


_MANY_PROBABILITIES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8)

_FAMILIES = (
    Family(
        *("uniform", "Uniform", "I"),
        parameters=(real("a"), real("b")),
        ordering=("a", "b"),
        law=lambda a, b: _scipy("uniform", loc=a, scale=b - a),
        train_grid=(linear("a", -5, 2, 11), linear("width", 1, 5, 11)),
        test_grid=(linear("a", 2.5, 4.5, 6), linear("width", 5.5, 8, 6)),
        selected=({"a": 3.5, "width": 7.0},),
        from_grid=lambda p: {"a": p["a"], "b": p["a"] + p["width"]},
    ),
    _location_scale(("gaussian", "Gaussian", "I"), "mu", "sigma", "norm"),
    _family(
        ("beta", "Beta", "II"),
        lambda alpha, beta: _scipy("beta", a=alpha, b=beta),
        ("alpha", positive, log, (0.5, 5, 11), (5.5, 8, 6), 7),
        ("beta", positive, log, (0.5, 5, 11), (5.5, 8, 6), 7),
    ),
    _family(
        ("binomial", "Binomial", "II"),
        lambda n, p: _scipy("binom", n=n, p=p),
        ("n", count, counts, (5, 10, 15, 20), (25, 30), 25),
        ("p", probability, listed, _MANY_PROBABILITIES, (0.25, 0.4, 0.5, 0.6, 0.75), 0.5),
    ),
    _family(
        ("exponential", "Exponential", "II"),
        lambda rate: _scipy("expon", scale=1.0 / rate),
        ("lambda", positive, log, (0.5, 5, 25), (5.5, 8, 12), 7),
    ),
    _family(
        ("geometric", "Geometric", "II"),
        lambda p: _scipy("geom", p=p),
        (
            *("p", probability, listed),
            (0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8),
            (0.05, 0.075, 0.1, 0.125, 0.15, 0.85, 0.875, 0.9, 0.925, 0.95),
            0.125,
        ),
    ),
    _family(
        ("negative_binomial", "Negative Binomial", "II"),
        lambda r, p: _scipy("nbinom", n=r, p=p),
        ("r", count, counts, (3, 5, 8, 12), (15, 20), 15),
        ("p", probability, listed, _MANY_PROBABILITIES, (0.1, 0.15, 0.2, 0.8, 0.85, 0.9), 0.15),
    ),
    _family(
        ("lognormal", "LogNormal", "II"),
        lambda mu, sigma: _scipy("lognorm", s=sigma, scale=math.exp(mu)),
        ("mu", real, linear, (-1, 1.5, 11), (1.75, 3, 6), 2.5),
        ("sigma", positive, log, (0.25, 1.25, 11), (1.5, 2.25, 6), 2.0),
    ),
    Family(
        *("triangular", "Triangular", "II"),
        parameters=(real("a"), real("c"), real("b")),
        ordering=("a", "c", "b"),
        law=lambda a, c, b: _scipy("triang", c=(c - a) / (b - a), loc=a, scale=b - a),
        train_grid=(linear("a", -3, 1, 5), linear("width", 1, 5, 5), listed("mode_fraction", 0.1, 0.3, 0.5, 0.7, 0.9)),
        test_grid=(linear("a", 1.5, 3.5, 3), linear("width", 5.5, 8, 3), listed("mode_fraction", 0.1, 0.5, 0.9)),
        selected=({"a": 2.5, "width": 7.0, "mode_fraction": 0.5},),
        from_grid=lambda p: {"a": p["a"], "c": p["a"] + p["width"] * p["mode_fraction"], "b": p["a"] + p["width"]},
    ),
    _family(
        ("rayleigh", "Rayleigh", "II"),
        lambda sigma: _scipy("rayleigh", scale=sigma),
        ("sigma", positive, log, (0.5, 2, 25), (2.25, 3.5, 12), 3.0),
    ),
    _location_scale(("cauchy", "Cauchy", "III"), "x0", "gamma", "cauchy"),
    _family(
        ("student_t", "Student's t", "III"),
        lambda nu: _scipy("t", df=nu),
        ("nu", positive, listed, (2.5, 2.75, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10), (10.5, 12, 14, 16, 18, 20), 16),
    ),
    _family(
        ("chi_square", "Chi-Square", "III"),
        lambda nu: _scipy("chi2", df=nu),
        ("nu", positive, listed, (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20), (21, 24, 28, 32, 36, 40), 32),
    ),
    _family(
        ("f_distribution", "F-Distribution", "III"),
        lambda d1, d2: _scipy("f", dfn=d1, dfd=d2),
        ("d1", positive, listed, (3, 5, 7, 10), (12, 15), 12),
        ("d2", positive, listed, (5, 10, 15, 20), (24, 30), 24),
    ),
    _family(
        ("gamma", "Gamma", "III"),
        # The prompt's beta is a scale, not a rate.
        lambda alpha, beta: _scipy("gamma", a=alpha, scale=beta),
        ("alpha", positive, log, (1, 5, 11), (5.5, 8, 6), 7),
        ("beta", positive, log, (1, 5, 11), (5.5, 8, 6), 7),
    ),
    _location_scale(("laplace", "Laplace", "III"), "mu", "b", "laplace"),
    _location_scale(("logistic", "Logistic", "III"), "mu", "s", "logistic"),
    _family(
        ("pareto", "Pareto", "III"),
        lambda alpha, xm: _scipy("pareto", b=alpha, scale=xm),
        ("alpha", positive, listed, (2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5), (5.5, 6, 6.5, 7, 8), 6.5),
        ("xm", positive, log, (0.5, 2, 11), (2.5, 4, 6), 3.5),
    ),
    Family(
        *("hypergeometric", "Hypergeometric", "III"),
        parameters=(count("M"), count("K", lower=0.0), count("N", lower=0.0)),
        law=lambda population, successes, draws: _scipy("hypergeom", M=population, n=successes, N=draws),
        train_grid=(
            counts("M", 30, 50, 80),
            counts("N", 5, 10, 15),
            listed("success_fraction", 0.2, 0.35, 0.5, 0.65, 0.8),
        ),
        test_grid=(counts("M", 100, 120), counts("N", 20, 25), listed("success_fraction", 0.2, 0.5, 0.8)),
        selected=({"M": 100.0, "N": 20.0, "success_fraction": 0.5},),
        from_grid=lambda p: {"M": p["M"], "K": round(p["M"] * p["success_fraction"]), "N": min(p["N"], p["M"])},
    ),
    _location_scale(("gumbel", "Gumbel", "III"), "mu", "beta", "gumbel_r"),
    _family(
        ("skellam", "Skellam", "III"),
        lambda mu1, mu2: _scipy("skellam", mu1=mu1, mu2=mu2),
        ("mu1", positive, log, (1, 8, 11), (8.5, 12, 6), 10.5),
        ("mu2", positive, log, (1, 8, 11), (8.5, 12, 6), 10.5),
    ),
    _family(
        ("beta_binomial", "Beta-Binomial", "III"),
        lambda n, alpha, beta: _scipy("betabinom", n=n, a=alpha, b=beta),
        ("n", count, counts, (10, 20, 30), (40, 50), 40),
        ("alpha", positive, log, (0.5, 5, 5), (5.5, 8, 3), 6.5),
        ("beta", positive, log, (0.5, 5, 5), (5.5, 8, 3), 6.5),
    ),
    _family(
        ("lomax", "Lomax", "III"),
        lambda alpha, scale: _scipy("lomax", c=alpha, scale=scale),
        ("alpha", positive, log, (1.5, 4, 11), (4.5, 7, 6), 6),
        ("lambda", positive, log, (0.5, 3, 11), (3.5, 5, 6), 4.5),
    ),
    _family(
        ("inverse_gaussian", "Inverse Gaussian", "III"),
        lambda mu, shape: _scipy("invgauss", mu=mu / shape, scale=shape),
        ("mu", positive, log, (0.5, 3, 11), (3.5, 6, 6), 5),
        ("lambda", positive, log, (0.5, 5, 11), (5.5, 8, 6), 7),
    ),
    _family(
        ("bernoulli", "Bernoulli", "I"),
        lambda p: _scipy("bernoulli", p=p),
        ("p", partial(probability, upper_inclusive=False), listed, None, (0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 0.5, 0.9)),
    ),
    _family(
        ("poisson", "Poisson", "II"),
        lambda rate: _scipy("poisson", mu=rate),
        ("lambda", positive, log, None, (1, 12, 17), (1, 4, 12)),
    ),
    _family(
        ("weibull", "Weibull", "III"),
        lambda shape, scale: _scipy("weibull_min", c=shape, scale=scale),
        ("k", positive, log, None, (0.5, 3, 6), (0.5, 1.5, 3)),
        ("lambda", positive, log, None, (0.5, 3, 6), (0.5, 1.5, 3)),
    ),
    _family(
        ("maxwell", "Maxwell", "II"),
        lambda scale: _scipy("maxwell", scale=scale),
        ("scale", positive, listed, None, (0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5), (0.75, 1.5, 2.5)),
    ),
    _family(
        ("chi", "Chi", "III"),
        lambda df: _scipy("chi", df=df),
        ("df", positive, listed, None, (1.5, 2, 3, 4, 5, 7, 10, 14, 20), (2, 5, 10)),
    ),
    _family(
        ("truncnorm", "TruncNorm", "II"),
        lambda mu, sigma, lower, upper: _scipy(
            "truncnorm", a=(lower - mu) / sigma, b=(upper - mu) / sigma, loc=mu, scale=sigma
        ),
        ("mu", real, listed, None, (0, 1), (0, 0, 1)),
        ("sigma", positive, listed, None, (1, 1.5), (1, 1, 1.5)),
        ("lower", real, listed, None, (-2, -1), (-1, -2, -1)),
        ("upper", real, listed, None, (1, 2), (1, 2, 2)),
        ordering=("lower", "upper"),
    ),
)

FAMILIES: dict[str, Family] = {family.family_id: family for family in _FAMILIES}


def get_family(family_id: str) -> Family:
    """The family of that id. Raises DomainError naming the known ids."""
    try:
        return FAMILIES[family_id]
    except KeyError:
        nearest = did_you_mean(family_id, FAMILIES)
        raise DomainError(f"unknown family {family_id!r}; {nearest}known families: {', '.join(FAMILIES)}") from None
