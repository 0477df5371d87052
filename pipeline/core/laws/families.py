"""The 30 distribution families: parameters, domains, SciPy laws and parameter grids.

A family is defined in one place, its entry here. Everything else (prompt text, support,
discretisation, evaluation, the embedded model's training data) derives from that entry.
Source: arXiv:2605.11845, Table 5 and Appendix C.1.
"""

import math

from pipeline.core.laws.family import (
    Family,
    Law,
    Parameters,
    count,
    counts,
    linear,
    listed,
    log,
    positive,
    probability,
    real,
)
from pipeline.errors import DomainError


def _family(names: tuple[str, str, str], **properties) -> Family:
    """The family of an id, a name in prompts and a tier."""
    return Family(*names, **properties)


def _scipy(name: str, **kwargs: float) -> Law:
    return Law(name, {key: float(value) for key, value in kwargs.items()})


def _uniform_from_grid(point: Parameters) -> dict[str, float]:
    return {"a": point["a"], "b": point["a"] + point["width"]}


def _triangular_from_grid(point: Parameters) -> dict[str, float]:
    a, width = point["a"], point["width"]
    return {"a": a, "c": a + width * point["mode_fraction"], "b": a + width}


def _hypergeometric_from_grid(point: Parameters) -> dict[str, float]:
    population = point["M"]
    return {
        "M": population,
        "K": float(round(population * point["success_fraction"])),
        "N": min(point["N"], population),
    }


def _location_scale(names: tuple[str, str, str], location: str, scale: str, scipy_name: str) -> Family:
    """The six location-scale families share their grids (Table 5)."""
    return Family(
        *names,
        parameters=(real(location), positive(scale)),
        law=lambda loc, scale: _scipy(scipy_name, loc=loc, scale=scale),
        train_grid=(linear(location, -2, 2, 11), log(scale, 0.5, 2, 11)),
        test_grid=(linear(location, 2.5, 4, 6), log(scale, 2.25, 3.5, 6)),
        selected=({location: 3.5, scale: 3.0},),
    )


_SEEN = (
    _family(
        ("uniform", "Uniform", "I"),
        parameters=(real("a"), real("b")),
        ordering=("a", "b"),
        law=lambda a, b: _scipy("uniform", loc=a, scale=b - a),
        train_grid=(linear("a", -5, 2, 11), linear("width", 1, 5, 11)),
        test_grid=(linear("a", 2.5, 4.5, 6), linear("width", 5.5, 8, 6)),
        selected=({"a": 3.5, "width": 7.0},),
        from_grid=_uniform_from_grid,
    ),
    _location_scale(("gaussian", "Gaussian", "I"), "mu", "sigma", "norm"),
    _family(
        ("beta", "Beta", "II"),
        parameters=(positive("alpha"), positive("beta")),
        law=lambda alpha, beta: _scipy("beta", a=alpha, b=beta),
        train_grid=(log("alpha", 0.5, 5, 11), log("beta", 0.5, 5, 11)),
        test_grid=(log("alpha", 5.5, 8, 6), log("beta", 5.5, 8, 6)),
        selected=({"alpha": 7.0, "beta": 7.0},),
    ),
    _family(
        ("binomial", "Binomial", "II"),
        parameters=(count("n"), probability("p", upper_inclusive=True)),
        law=lambda n, p: _scipy("binom", n=n, p=p),
        train_grid=(
            counts("n", 5, 10, 15, 20),
            listed("p", 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
        ),
        test_grid=(counts("n", 25, 30), listed("p", 0.25, 0.4, 0.5, 0.6, 0.75)),
        selected=({"n": 25.0, "p": 0.5},),
    ),
    _family(
        ("exponential", "Exponential", "II"),
        parameters=(positive("lambda"),),
        law=lambda rate: _scipy("expon", scale=1.0 / rate),
        train_grid=(log("lambda", 0.5, 5, 25),),
        test_grid=(log("lambda", 5.5, 8, 12),),
        selected=({"lambda": 7.0},),
    ),
    _family(
        ("geometric", "Geometric", "II"),
        parameters=(probability("p", upper_inclusive=True),),
        law=lambda p: _scipy("geom", p=p),
        train_grid=(listed("p", 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8),),
        test_grid=(listed("p", 0.05, 0.075, 0.1, 0.125, 0.15, 0.85, 0.875, 0.9, 0.925, 0.95),),
        selected=({"p": 0.125},),
    ),
    _family(
        ("negative_binomial", "Negative Binomial", "II"),
        parameters=(count("r"), probability("p", upper_inclusive=True)),
        law=lambda r, p: _scipy("nbinom", n=r, p=p),
        train_grid=(
            counts("r", 3, 5, 8, 12),
            listed("p", 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
        ),
        test_grid=(counts("r", 15, 20), listed("p", 0.1, 0.15, 0.2, 0.8, 0.85, 0.9)),
        selected=({"r": 15.0, "p": 0.15},),
    ),
    _family(
        ("lognormal", "LogNormal", "II"),
        parameters=(real("mu"), positive("sigma")),
        law=lambda mu, sigma: _scipy("lognorm", s=sigma, scale=math.exp(mu)),
        train_grid=(linear("mu", -1, 1.5, 11), log("sigma", 0.25, 1.25, 11)),
        test_grid=(linear("mu", 1.75, 3, 6), log("sigma", 1.5, 2.25, 6)),
        selected=({"mu": 2.5, "sigma": 2.0},),
    ),
    _family(
        ("triangular", "Triangular", "II"),
        parameters=(real("a"), real("c"), real("b")),
        ordering=("a", "c", "b"),
        law=lambda a, c, b: _scipy("triang", c=(c - a) / (b - a), loc=a, scale=b - a),
        train_grid=(linear("a", -3, 1, 5), linear("width", 1, 5, 5), listed("mode_fraction", 0.1, 0.3, 0.5, 0.7, 0.9)),
        test_grid=(linear("a", 1.5, 3.5, 3), linear("width", 5.5, 8, 3), listed("mode_fraction", 0.1, 0.5, 0.9)),
        selected=({"a": 2.5, "width": 7.0, "mode_fraction": 0.5},),
        from_grid=_triangular_from_grid,
    ),
    _family(
        ("rayleigh", "Rayleigh", "II"),
        parameters=(positive("sigma"),),
        law=lambda sigma: _scipy("rayleigh", scale=sigma),
        train_grid=(log("sigma", 0.5, 2, 25),),
        test_grid=(log("sigma", 2.25, 3.5, 12),),
        selected=({"sigma": 3.0},),
    ),
    _location_scale(("cauchy", "Cauchy", "III"), "x0", "gamma", "cauchy"),
    _family(
        ("student_t", "Student's t", "III"),
        parameters=(positive("nu"),),
        law=lambda nu: _scipy("t", df=nu),
        train_grid=(listed("nu", 2.5, 2.75, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10),),
        test_grid=(listed("nu", 10.5, 12, 14, 16, 18, 20),),
        selected=({"nu": 16.0},),
    ),
    _family(
        ("chi_square", "Chi-Square", "III"),
        parameters=(positive("nu"),),
        law=lambda nu: _scipy("chi2", df=nu),
        train_grid=(listed("nu", 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20),),
        test_grid=(listed("nu", 21, 24, 28, 32, 36, 40),),
        selected=({"nu": 32.0},),
    ),
    _family(
        ("f_distribution", "F-Distribution", "III"),
        parameters=(positive("d1"), positive("d2")),
        law=lambda d1, d2: _scipy("f", dfn=d1, dfd=d2),
        train_grid=(listed("d1", 3, 5, 7, 10), listed("d2", 5, 10, 15, 20)),
        test_grid=(listed("d1", 12, 15), listed("d2", 24, 30)),
        selected=({"d1": 12.0, "d2": 24.0},),
    ),
    _family(
        ("gamma", "Gamma", "III"),
        parameters=(positive("alpha"), positive("beta")),
        # The prompt's beta is a scale, not a rate.
        law=lambda alpha, beta: _scipy("gamma", a=alpha, scale=beta),
        train_grid=(log("alpha", 1, 5, 11), log("beta", 1, 5, 11)),
        test_grid=(log("alpha", 5.5, 8, 6), log("beta", 5.5, 8, 6)),
        selected=({"alpha": 7.0, "beta": 7.0},),
    ),
    _location_scale(("laplace", "Laplace", "III"), "mu", "b", "laplace"),
    _location_scale(("logistic", "Logistic", "III"), "mu", "s", "logistic"),
    _family(
        ("pareto", "Pareto", "III"),
        parameters=(positive("alpha"), positive("xm")),
        law=lambda alpha, xm: _scipy("pareto", b=alpha, scale=xm),
        train_grid=(listed("alpha", 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5), log("xm", 0.5, 2, 11)),
        test_grid=(listed("alpha", 5.5, 6, 6.5, 7, 8), log("xm", 2.5, 4, 6)),
        selected=({"alpha": 6.5, "xm": 3.5},),
    ),
    _family(
        ("hypergeometric", "Hypergeometric", "III"),
        parameters=(count("M"), count("K", at_least=0), count("N", at_least=0)),
        law=lambda population, successes, draws: _scipy("hypergeom", M=population, n=successes, N=draws),
        train_grid=(
            counts("M", 30, 50, 80),
            counts("N", 5, 10, 15),
            listed("success_fraction", 0.2, 0.35, 0.5, 0.65, 0.8),
        ),
        test_grid=(counts("M", 100, 120), counts("N", 20, 25), listed("success_fraction", 0.2, 0.5, 0.8)),
        selected=({"M": 100.0, "N": 20.0, "success_fraction": 0.5},),
        from_grid=_hypergeometric_from_grid,
    ),
    _location_scale(("gumbel", "Gumbel", "III"), "mu", "beta", "gumbel_r"),
    _family(
        ("skellam", "Skellam", "III"),
        parameters=(positive("mu1"), positive("mu2")),
        law=lambda mu1, mu2: _scipy("skellam", mu1=mu1, mu2=mu2),
        train_grid=(log("mu1", 1, 8, 11), log("mu2", 1, 8, 11)),
        test_grid=(log("mu1", 8.5, 12, 6), log("mu2", 8.5, 12, 6)),
        selected=({"mu1": 10.5, "mu2": 10.5},),
    ),
    _family(
        ("beta_binomial", "Beta-Binomial", "III"),
        parameters=(count("n"), positive("alpha"), positive("beta")),
        law=lambda n, alpha, beta: _scipy("betabinom", n=n, a=alpha, b=beta),
        train_grid=(counts("n", 10, 20, 30), log("alpha", 0.5, 5, 5), log("beta", 0.5, 5, 5)),
        test_grid=(counts("n", 40, 50), log("alpha", 5.5, 8, 3), log("beta", 5.5, 8, 3)),
        selected=({"n": 40.0, "alpha": 6.5, "beta": 6.5},),
    ),
    _family(
        ("lomax", "Lomax", "III"),
        parameters=(positive("alpha"), positive("lambda")),
        law=lambda alpha, scale: _scipy("lomax", c=alpha, scale=scale),
        train_grid=(log("alpha", 1.5, 4, 11), log("lambda", 0.5, 3, 11)),
        test_grid=(log("alpha", 4.5, 7, 6), log("lambda", 3.5, 5, 6)),
        selected=({"alpha": 6.0, "lambda": 4.5},),
    ),
    _family(
        ("inverse_gaussian", "Inverse Gaussian", "III"),
        parameters=(positive("mu"), positive("lambda")),
        law=lambda mu, shape: _scipy("invgauss", mu=mu / shape, scale=shape),
        train_grid=(log("mu", 0.5, 3, 11), log("lambda", 0.5, 5, 11)),
        test_grid=(log("mu", 3.5, 6, 6), log("lambda", 5.5, 8, 6)),
        selected=({"mu": 5.0, "lambda": 7.0},),
    ),
)

_HELD_OUT = (
    _family(
        ("bernoulli", "Bernoulli", "I"),
        parameters=(probability("p"),),
        law=lambda p: _scipy("bernoulli", p=p),
        test_grid=(listed("p", 0.1, 0.3, 0.5, 0.7, 0.9),),
        selected=({"p": 0.1}, {"p": 0.5}, {"p": 0.9}),
    ),
    _family(
        ("poisson", "Poisson", "II"),
        parameters=(positive("lambda"),),
        law=lambda rate: _scipy("poisson", mu=rate),
        test_grid=(log("lambda", 1, 12, 17),),
        selected=({"lambda": 1.0}, {"lambda": 4.0}, {"lambda": 12.0}),
    ),
    _family(
        ("weibull", "Weibull", "III"),
        parameters=(positive("k"), positive("lambda")),
        law=lambda shape, scale: _scipy("weibull_min", c=shape, scale=scale),
        test_grid=(log("k", 0.5, 3, 6), log("lambda", 0.5, 3, 6)),
        selected=({"k": 0.5, "lambda": 0.5}, {"k": 1.5, "lambda": 1.5}, {"k": 3.0, "lambda": 3.0}),
    ),
    _family(
        ("maxwell", "Maxwell", "II"),
        parameters=(positive("scale"),),
        law=lambda scale: _scipy("maxwell", scale=scale),
        test_grid=(listed("scale", 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5),),
        selected=({"scale": 0.75}, {"scale": 1.5}, {"scale": 2.5}),
    ),
    _family(
        ("chi", "Chi", "III"),
        parameters=(positive("df"),),
        law=lambda df: _scipy("chi", df=df),
        test_grid=(listed("df", 1.5, 2, 3, 4, 5, 7, 10, 14, 20),),
        selected=({"df": 2.0}, {"df": 5.0}, {"df": 10.0}),
    ),
    _family(
        ("truncnorm", "TruncNorm", "II"),
        parameters=(real("mu"), positive("sigma"), real("lower"), real("upper")),
        ordering=("lower", "upper"),
        law=lambda mu, sigma, lower, upper: _scipy(
            "truncnorm", a=(lower - mu) / sigma, b=(upper - mu) / sigma, loc=mu, scale=sigma
        ),
        test_grid=(listed("mu", 0, 1), listed("sigma", 1, 1.5), listed("lower", -2, -1), listed("upper", 1, 2)),
        selected=(
            {"mu": 0.0, "sigma": 1.0, "lower": -1.0, "upper": 1.0},
            {"mu": 0.0, "sigma": 1.0, "lower": -2.0, "upper": 2.0},
            {"mu": 1.0, "sigma": 1.5, "lower": -1.0, "upper": 2.0},
        ),
    ),
)

FAMILIES: dict[str, Family] = {family.family_id: family for family in (*_SEEN, *_HELD_OUT)}


def get_family(family_id: str) -> Family:
    """The family of that id. Raises DomainError naming the known ids."""
    try:
        return FAMILIES[family_id]
    except KeyError:
        raise DomainError(f"unknown family {family_id!r}; known families: {', '.join(FAMILIES)}") from None
