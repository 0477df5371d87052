"""Spread between seeds, against hand-computed numbers and SciPy's test of all pairs."""

import math

import pytest
from scipy import stats

from pipeline.core.statistics.seed_noise import compare_with_best, pooled_deviation, spread

pytestmark = pytest.mark.slow

NOISY = [[0.10, 0.12, 0.14], [0.13, 0.15, 0.14], [0.30, 0.31, 0.32]]


def test_spread_of_three_seeds():
    found = spread([0.10, 0.12, 0.17])
    assert found.mean == pytest.approx(0.13)
    # Deviations -0.03, -0.01, 0.04: variance (0.0009 + 0.0001 + 0.0016) / 2.
    assert found.deviation == pytest.approx(math.sqrt(0.0013))
    assert (found.low, found.high, found.seeds, found.undefined) == (0.10, 0.17, 3, 0)


def test_a_failed_seed_is_not_averaged_away():
    found = spread([0.1, math.nan, 0.2])
    assert found.undefined == 1
    assert found.seeds == 3
    assert math.isnan(found.mean)


def test_no_seeds():
    with pytest.raises(ValueError, match="at least one seed"):
        spread([])


def test_pooled_deviation_weights_by_degrees_of_freedom():
    deviation, freedom = pooled_deviation([spread([1.0, 3.0]), spread([0.0, 1.0, 2.0]), spread([7.0])])
    # Variances 2 with 1 and 1 with 2 degrees of freedom.
    assert freedom == 3
    assert deviation == pytest.approx(math.sqrt((1 * 2 + 2 * 1) / 3))


@pytest.mark.parametrize(
    "groups", [NOISY, [[1.0, 1.2], [1.3, 1.1, 1.5, 1.4], [2.0, 2.4, 2.1]], [[0.1, 0.2], [0.9, 0.8]]]
)
def test_verdicts_are_tukey_and_kramers(groups):
    compared = compare_with_best([spread(group) for group in groups], significance=0.05)
    oracle = stats.tukey_hsd(*groups)
    best = min(range(len(groups)), key=lambda place: sum(groups[place]) / len(groups[place]))
    assert compared[best].verdict == "best"
    for place, item in enumerate(compared):
        if place != best:
            interval = oracle.confidence_interval(0.95)
            assert item.margin == pytest.approx((interval.high[place, best] - interval.low[place, best]) / 2, rel=1e-6)
            beyond = oracle.pvalue[place, best] < 0.05
            assert item.verdict == ("beyond seed noise" if beyond else "within seed noise")


def test_higher_may_be_better():
    verdicts = [item.verdict for item in compare_with_best([spread(g) for g in NOISY], lower_is_better=False)]
    assert verdicts == ["beyond seed noise", "beyond seed noise", "best"]


def test_single_seeds_give_no_verdict():
    compared = compare_with_best([spread([0.1]), spread([0.5])])
    assert [item.verdict for item in compared] == ["best", "seed noise unknown"]
    assert compared[1].difference == pytest.approx(0.4)


def test_a_single_seed_is_judged_by_the_others_noise():
    compared = compare_with_best([spread([0.10, 0.12]), spread([0.11]), spread([9.0])])
    assert [item.verdict for item in compared] == ["best", "within seed noise", "beyond seed noise"]
    # Half the interval is wider by sqrt(1 + 1/2) against sqrt(1/2 + 1/2).
    assert compared[1].margin / compared[0].margin == pytest.approx(math.sqrt(1.5))


def test_undefined_settings_are_no_candidates():
    compared = compare_with_best([spread([math.nan, 0.0]), spread([0.2, 0.3])])
    assert [item.verdict for item in compared] == ["undefined", "best"]
    assert [item.verdict for item in compare_with_best([spread([math.nan])])] == ["undefined"]
