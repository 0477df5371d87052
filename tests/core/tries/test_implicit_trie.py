"""The rounded law and its implicit trie, against SciPy and against explicit tries of every decimal."""

import numpy as np
import pytest
from scipy import stats

from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.family import Law
from pipeline.core.laws.fixed_point import FixedPointStrings
from pipeline.core.laws.rounded_law import RoundedLaw
from pipeline.core.tries.implicit_trie import ImplicitTrie
from pipeline.core.tries.trie import build_tries
from pipeline.errors import DomainError
from tests.core.conftest import END, digit_tokens

# Law, decimals, and a range of grid indices that holds all but 1e-13 of its mass.
CASES = [
    (Law("uniform", {"loc": -1.237, "scale": 3.5}), 2, (-123, 226)),
    (Law("norm", {"loc": 0.1, "scale": 0.3}), 2, (-1200, 1200)),
    (Law("norm", {"loc": -130.0, "scale": 2.0}), 1, (-1600, -1000)),
    (Law("expon", {"scale": 0.5}), 2, (0, 2500)),
    (Law("beta", {"a": 0.5, "b": 2.0}), 3, (0, 1000)),
    (Law("poisson", {"mu": 12.0}), 0, (0, 1200)),
    (Law("skellam", {"mu1": 3.0, "mu2": 4.0}), 0, (-150, 150)),
    (Law("binom", {"n": 20.0, "p": 0.3}), 0, (0, 20)),
    (Law("geom", {"p": 0.05}), 0, (1, 1000)),
    (Law("hypergeom", {"M": 50.0, "n": 10.0, "N": 15.0}), 0, (0, 10)),
]


def explicit(law: RoundedLaw, first: int, last: int, rule):
    """The trie of every decimal in a range."""
    grid = np.arange(first, last + 1)
    return next(build_tries([OutputSpace(FixedPointStrings(grid, law.num_decimals), law.masses(grid, grid + 1))], rule))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].scipy_name}-{case[1]}")
def test_equals_the_explicit_trie_of_every_decimal(case, rule):
    law, num_decimals, (first, last) = case
    rounded = RoundedLaw(law, num_decimals)
    implicit, trie = ImplicitTrie(rounded, rule), explicit(rounded, first, last, rule)
    pending, reach = [()], {(): 1.0}
    while pending:
        prefix = pending.pop()
        expected = dict(zip(*(part.tolist() for part in trie.next_tokens(prefix)), strict=True))
        ids, probabilities = implicit.next_tokens(prefix)
        assert ids.dtype == np.int32 and (np.diff(ids) > 0).all() and probabilities.sum() == pytest.approx(1, abs=1e-12)
        found = dict(zip(ids.tolist(), probabilities.tolist(), strict=True))
        for token in expected.keys() | found.keys():
            # Where hardly any mass leads, the explicit range's cut shows.
            difference = abs(expected.get(token, 0.0) - found.get(token, 0.0))
            assert difference * reach[prefix] < 1e-12 and (reach[prefix] < 1e-6 or difference < 1e-9)
        for token, probability in expected.items():
            if token != END and len(reach) < 800:
                reach[(*prefix, token)] = reach[prefix] * probability
                pending.append((*prefix, token))


def test_tails_keep_their_digits():
    rounded = RoundedLaw(Law("norm", {"loc": 0.0, "scale": 1.0}), 2)
    # P(X rounds to 12.00) is 2e-33: 1 - cdf would give 0.
    mass = float(rounded.masses(np.array(1200), np.array(1201)))
    assert mass == pytest.approx(stats.norm.sf(11.995) - stats.norm.sf(12.005), rel=1e-9) and mass > 0
    assert float(rounded.masses(np.array(-1200), np.array(-1199))) == pytest.approx(mass, rel=1e-9)
    rule = digit_tokens(1)
    ids, probabilities = ImplicitTrie(rounded, rule).next_tokens(rule.encode("12.0"))
    upper = stats.norm.sf((1199.5 + np.arange(11)) / 100)
    expected = dict(zip(rule.groups[0].tolist(), -np.diff(upper) / (upper[0] - upper[-1]), strict=True))
    np.testing.assert_allclose(probabilities, [expected[token] for token in ids.tolist()], rtol=1e-8)


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: f"{case[0].scipy_name}-{case[1]}")
def test_sampled_paths_follow_the_rounded_law(case, rule):
    law, num_decimals, _ = case
    rounded = RoundedLaw(law, num_decimals)
    trie, rng = ImplicitTrie(rounded, rule), np.random.default_rng(4)
    for ids, candidates in trie.sample_paths(rng, 3):
        assert ids[-1] == END and len(candidates) == len(ids)
        for k, (tokens, probabilities) in enumerate(candidates):
            alone = trie.next_tokens(ids[:k])
            assert alone[0].tolist() == tokens.tolist()
            np.testing.assert_allclose(alone[1], probabilities, rtol=1e-9)
    draws = np.array(rounded.sample(rng, 1500))
    edges = np.unique(np.quantile(draws, np.linspace(0, 1, 12)).astype(np.int64))[1:-1]
    starts = np.concatenate([[rounded.bounds[0]], edges])
    stops = np.concatenate([edges, [rounded.bounds[1] + 1]])
    expected = rounded.masses(starts, stops) * len(draws)
    observed = np.array([((draws >= a) & (draws < b)).sum() for a, b in zip(starts, stops, strict=True)])
    kept = expected > 1
    assert ((observed - expected)[kept] ** 2 / expected[kept]).sum() < stats.chi2.ppf(0.9999, kept.sum())


def test_there_is_no_negative_zero():
    """The last digit of "-0.00" is not 0, and an exponential law has nothing behind "-"."""
    rule = digit_tokens(1)
    tokens, _ = ImplicitTrie(RoundedLaw(Law("norm", {"loc": 0.0, "scale": 2.0}), 3), rule).next_tokens(
        rule.encode("-0.00")
    )
    assert {rule.text_of[token] for token in tokens.tolist()} == set("123456789")
    positive = ImplicitTrie(RoundedLaw(Law("expon", {"scale": 1.0}), 3), rule)
    assert not len(positive.next_tokens([rule.minus])[0])


def test_underflowing_tails_have_no_mass():
    # SciPy's survival function of the inverse Gaussian is NaN far out.
    rounded = RoundedLaw(Law("invgauss", {"mu": 0.5, "scale": 2.0}), 2)
    assert float(rounded.masses(np.array(10**9), np.array(10**10))) == 0.0
    rule = digit_tokens(1)
    ids, probabilities = ImplicitTrie(rounded, rule).next_tokens([])
    assert np.isfinite(probabilities).all() and len(ids) == 10


def test_heavy_tails_and_fine_grids():
    cauchy = RoundedLaw(Law("cauchy", {"loc": 0.0, "scale": 3.0}), 5)
    assert float(cauchy.masses(np.array(cauchy.bounds[0]), np.array(cauchy.bounds[1] + 1))) == 1.0
    with pytest.raises(DomainError, match="more than 15 digits"):
        RoundedLaw(Law("norm", {"loc": 0.0, "scale": 1e5}), 12)
    with pytest.raises(DomainError, match="raise num_decimals"):
        RoundedLaw(Law("uniform", {"loc": 0.2, "scale": 0.1}), 0)
