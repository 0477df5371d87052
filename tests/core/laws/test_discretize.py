"""Output spaces against brute force and SciPy."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pipeline.core.laws.discretize import discretize, kept_grid
from pipeline.core.laws.families import get_family
from pipeline.errors import DomainError


def test_all_decimals_kept_matches_the_cdf_at_half_steps():
    law = get_family("gaussian").law_at({"mu": 0.3, "sigma": 0.5})
    space = discretize(law, num_decimals=2, max_bins=10_000)
    frozen = stats.norm(0.3, 0.5)
    values = np.array([float(value) for value in space.values])
    # First and last centres: the multiples of 0.01 inside the 0.001 and 0.999 quantiles, -1.245 and 1.845.
    assert (space.values[0], space.values[-1]) == ("-1.24", "1.84")
    expected = frozen.cdf(values + 0.005) - frozen.cdf(values - 0.005)
    expected[0], expected[-1] = frozen.cdf(values[0] + 0.005), frozen.sf(values[-1] - 0.005)
    np.testing.assert_allclose(space.probabilities, expected, atol=1e-12)


def test_integer_law_with_finite_support_is_its_pmf():
    law = get_family("binomial").law_at({"n": 6.0, "p": 0.3})
    space = discretize(law, num_decimals=5, max_bins=100)
    assert space.values == ["0", "1", "2", "3", "4", "5", "6"]
    exact = [float(math.comb(6, k) * Fraction(3, 10) ** k * Fraction(7, 10) ** (6 - k)) for k in range(7)]
    np.testing.assert_allclose(space.probabilities, exact, atol=1e-12)


def test_integer_cap_puts_the_upper_tail_on_the_last_value():
    law = get_family("poisson").law_at({"lambda": 4.0})
    space = discretize(law, num_decimals=5, max_bins=4)
    pmf = [math.exp(-4) * 4**k / math.factorial(k) for k in range(3)]
    assert space.values == ["0", "1", "2", "3"]
    np.testing.assert_allclose(space.probabilities, [*pmf, 1 - sum(pmf)], atol=1e-12)


def test_the_lower_tail_of_skellam_is_spread_over_all_values():
    space = discretize(get_family("skellam").law_at({"mu1": 3.0, "mu2": 5.0}), num_decimals=0, max_bins=100)
    frozen = stats.skellam(3, 5)
    first, last = int(frozen.ppf(0.001)), int(frozen.ppf(0.999))
    assert (space.values[0], space.values[-1]) == (str(first), str(last))
    assert space.probabilities[0] == pytest.approx(frozen.pmf(first) / frozen.sf(first - 1), abs=1e-12)


@given(lower=st.floats(-1e4, 1e4), width=st.floats(0, 1e3), decimals=st.integers(0, 5), bins=st.integers(2, 40))
def test_kept_grid_equals_the_materialised_one(lower, width, decimals, bins):
    upper = lower + width
    ends = lower * 10**decimals, upper * 10**decimals
    assume(all(abs(end - round(end)) > 1e-6 or end == round(end) for end in ends))
    first, last = math.ceil(ends[0]), math.floor(ends[1])
    if last < first:
        with pytest.raises(DomainError, match="num_decimals"):
            kept_grid(lower, upper, decimals, bins)
        return
    if last - first > 200_000:
        return
    grid = np.arange(first, last + 1)
    if len(grid) > bins:
        grid = grid[np.linspace(0, len(grid) - 1, bins).astype(int)]
    np.testing.assert_array_equal(kept_grid(lower, upper, decimals, bins), grid)


def test_ends_of_the_grid_that_lie_on_a_quantile_are_kept():
    """Of 8 of the 100 training prompts of the uniform law an end used to be lost to rounding."""
    for values in get_family("uniform").grid_points("train"):
        a, b = Decimal(repr(values["a"])), Decimal(repr(values["b"]))
        first, last = ((a + Decimal(level) * (b - a)).quantize(Decimal("1e-9")) for level in ("0.001", "0.999"))
        space = discretize(get_family("uniform").law_at(values), num_decimals=3, max_bins=50)
        assert Decimal(space.values[0]) == first.quantize(Decimal("1e-3"), ROUND_CEILING)
        assert Decimal(space.values[-1]) == last.quantize(Decimal("1e-3"), ROUND_FLOOR)
