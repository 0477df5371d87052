"""Paired tests against SciPy, hand-computed values and their own error rates."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.paired_tests import (
    _score,
    holm,
    mcnemar_exact,
    ratio_contributions,
    sign_flip_test,
    stratified_mean,
    tango_interval,
    tost,
    tost_proportions,
    verdict,
)


def pairs(gained: int, lost: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Base and own answers; the items that do not differ are half right."""
    same = np.arange(size - gained - lost) % 2
    return np.r_[np.zeros(gained), np.ones(lost), same], np.r_[np.ones(gained), np.zeros(lost), same]


def score(gained: float, lost: float, size: int, margin: float) -> float:
    return float(_score(np.array(float(gained)), np.array(float(lost)), size, margin))


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04: times 4, 3, 2, 1 = .02, .03, .06, .04; monotone .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    # One that is undefined stays in the count: .01 is multiplied by 3, not 2.
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)


@pytest.mark.parametrize(("gained", "lost"), [(3, 9), (9, 3), (1, 0), (0, 0)])
def test_mcnemar_is_a_binomial_test_of_what_differs(gained, lost):
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar_exact(*pairs(gained, lost, 40)) == expected
    for wrong in (np.full(40, 0.5), np.ones(3)):
        with pytest.raises(ValueError, match="of one shape, of values 0 and 1"):
            mcnemar_exact(np.ones(40), wrong)


def test_sign_flips_agree_with_all_assignments():
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.1, -0.05, 0.25, 0.15])
    exact = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    found = sign_flip_test(differences, 20_000, random_stream(0, "signs"))
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))
    assert sign_flip_test(differences, 0, random_stream(0, "signs"), most_enumerated=8) == pytest.approx(exact)
    assert sign_flip_test(np.zeros(5), 100, random_stream(0, "signs")) == 1.0
    assert math.isnan(sign_flip_test(np.array([]), 100, random_stream(0, "signs")))


def test_tost_is_the_larger_of_two_t_tests():
    for shift in (-0.08, 0.02, 0.3):
        differences = np.random.default_rng(1).normal(shift, 0.2, 60)
        above = stats.ttest_1samp(differences, -0.1, alternative="greater").pvalue
        below = stats.ttest_1samp(differences, 0.1, alternative="less").pvalue
        assert tost(differences, 0.1) == pytest.approx(max(above, below), rel=1e-10)
    assert tost(np.full(5, 0.01), 0.05) == 0.0 and tost(np.full(5, 0.05), 0.05) == 1.0
    assert math.isnan(tost(np.array([0.1]), 0.5))


def test_contributions_carry_ratio_and_delta_method_error():
    rng = np.random.default_rng(2)
    y = rng.integers(1, 50, 200).astype(float)
    x = 0.7 * y + rng.normal(0, 2, 200)
    found = ratio_contributions(x, y)
    assert found.mean() == pytest.approx(x.sum() / y.sum(), rel=1e-12)
    picks = rng.integers(200, size=(4000, 200))
    bootstrap = (x[picks].sum(axis=1) / y[picks].sum(axis=1)).std()
    assert found.std(ddof=1) / math.sqrt(200) == pytest.approx(bootstrap, rel=0.1)


@pytest.mark.parametrize(("gained", "lost"), [(0, 3), (4, 4), (7, 1)])
def test_score_uses_the_constrained_maximum_likelihood(gained, lost):
    size, margin = 50, 0.1

    def minus_likelihood(down):
        up = max(down - margin, 1e-300)
        return -(gained * np.log(up) + lost * np.log(down) + (size - gained - lost) * np.log(1 + margin - 2 * down))

    best = optimize.minimize_scalar(minus_likelihood, bounds=(margin, (1 + margin) / 2), options={"xatol": 1e-10}).x
    variance = size * (2 * best - margin - margin**2)
    assert score(gained, lost, size, margin) == pytest.approx(
        (gained - lost + size * margin) / math.sqrt(variance), rel=1e-4
    )


def test_equivalence_of_proportions_by_brute_force():
    size, margin, gained, lost = 12, 0.3, 1, 0
    base, own = pairs(gained, lost, size)

    def one_sided(up_count, down_count):
        differing = up_count + down_count
        interval = stats.beta.ppf(
            [0.0005, 0.9995], [differing, differing + 1], [size - differing + 1, size - differing]
        )
        rates = np.linspace(max(margin, interval[0]), max(margin, interval[1]), 101)
        observed = score(up_count, down_count, size, margin)
        tail = [
            (u, d) for u in range(size + 1) for d in range(size + 1 - u) if score(u, d, size, margin) >= observed - 1e-9
        ]
        return 0.001 + max(
            sum(
                stats.multinomial.pmf([u, d, size - u - d], size, [(r - margin) / 2, (r + margin) / 2, 1 - r])
                for u, d in tail
            )
            for r in rates
        )

    expected = max(one_sided(gained, lost), one_sided(lost, gained))
    assert tost_proportions(base, own, margin) == pytest.approx(expected, rel=1e-9)
    assert tost_proportions(own, base, margin) == pytest.approx(expected, rel=1e-9)


def test_identical_answers_are_kept_and_one_difference_is_not_overrated():
    assert tost_proportions(*pairs(0, 0, 100), 0.05) == pytest.approx(0.008, abs=0.0005)
    # At most one loss in 100 has probability 0.037 when 5% are lost; a t-test says 0.00006.
    assert stats.binom.cdf(1, 100, 0.05) < tost_proportions(*pairs(0, 1, 100), 0.05) < 0.04
    # Many items take the score test.
    expected = stats.norm.cdf((30 - 28 - 1000 * 0.03) / math.sqrt(58))
    assert tost_proportions(*pairs(30, 28, 1000), 0.03) == pytest.approx(expected, abs=2e-3)
    assert math.isnan(tost_proportions(np.array([]), np.array([]), 0.1))


def test_equivalence_of_proportions_keeps_its_level():
    """At a true loss of exactly the margin, at most 5% of samples may be called equivalent."""
    size, margin, wrong, gained_rate = 24, 0.2, 0.0, 0.05
    for gained in range(size + 1):
        for lost in range(size + 1 - gained):
            rates = [gained_rate, gained_rate + margin, 1 - 2 * gained_rate - margin]
            chance = stats.multinomial.pmf([gained, lost, size - gained - lost], size, rates)
            if chance > 1e-6 and tost_proportions(*pairs(gained, lost, size), margin) <= 0.05:
                wrong += chance
    assert wrong <= 0.05


def test_tangos_interval_is_what_his_test_does_not_reject():
    for gained, lost, size in ((9, 0, 44), (12, 2, 50), (0, 0, 100), (0, 10, 10), (10, 0, 10)):
        low, high = tango_interval(*pairs(gained, lost, size))
        assert low <= (gained - lost) / size <= high
        for end in (low, high):
            assert abs(end) == 1 or abs(score(gained, lost, size, -end)) == pytest.approx(1.959964, abs=1e-5)
    assert tango_interval(*pairs(0, 0, 100)) == pytest.approx((-0.037, 0.037), abs=5e-5)
    assert math.isnan(tango_interval(np.array([]), np.array([]))[0])


def test_five_tasks_together_cover_hold_their_level_and_can_say_kept():
    """Differences at the margin, at 0 with 6% of answers changed, and identical conditions; five tasks of 100."""
    rng, runs, margin = np.random.default_rng(3), 1_500, 0.05
    covered = wrong = right = 0
    for _ in range(runs):
        at_margin, at_zero = (
            [rng.choice([1.0, -1.0, 0.0], size=100, p=[up, down, 1 - up - down]) for _ in range(5)]
            for up, down in ((0.01, 0.06), (0.03, 0.03))
        )
        found = stratified_mean(at_margin, [True] * 5)
        covered += found.interval[0] <= -margin <= found.interval[1]
        wrong += found.p_equivalence(margin) <= 0.05
        right += stratified_mean(at_zero, [True] * 5).p_equivalence(margin) <= 0.05
    assert covered / runs > 0.935 and wrong / runs < 0.06 and right / runs > 0.95
    identical = stratified_mean([np.zeros(100)] * 5, [True] * 5)
    assert identical.p_equivalence(margin) < 1e-6 and identical.interval[1] > 0.01


def test_strata_by_hand():
    # Values that are no rates have variances 1 and 8 (n - 1) of 3 and 2 items; the mean over strata is (2 + 2) / 2.
    found = stratified_mean([np.array([1.0, 2, 3]), np.array([0.0, 4])], [False, False])
    assert (found.value, found.error) == pytest.approx((2, math.sqrt(1 / 3 + 8 / 2) / 2))
    # One gained and one lost of 10 items, and one of each added: 4 / 12 / 12.
    rate = stratified_mean([np.repeat([1.0, -1.0, 0.0], [1, 1, 8])], [True])
    assert rate.error == pytest.approx(1 / 6) and rate.detectable(0.05) == pytest.approx(2.8016 / 6, abs=1e-4)
    assert rate.interval == pytest.approx((-1.959964 / 6, 1.959964 / 6))
    assert rate.p_equivalence(0.3) == pytest.approx(stats.norm.sf(1.8))


@pytest.mark.parametrize(
    ("difference", "p_difference", "p_equivalence", "expected"),
    [
        (-0.02, 0.001, 0.01, "kept"),
        (-0.3, 0.001, 1.0, "lost"),
        (0.3, 0.05, 1.0, "gained"),
        (-0.1, 0.2, 0.3, "cannot tell"),
        (0.1, math.nan, math.nan, "cannot tell"),
    ],
)
def test_verdict(difference, p_difference, p_equivalence, expected):
    assert verdict(difference, p_difference, p_equivalence, 0.05) == expected
    swapped = {"lost": "gained", "gained": "lost"}.get(expected, expected)
    assert verdict(difference, p_difference, p_equivalence, 0.05, higher_is_better=False) == swapped
