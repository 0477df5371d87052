"""Spread between seeds, against hand-computed numbers and SciPy's test of all pairs."""

import math

import pytest
from scipy import stats

from pipeline.core.statistics.seed_noise import compare_with_best, spread

NOISY = [[0.10, 0.12, 0.14], [0.13, 0.15, 0.14], [0.30, 0.31, 0.32]]


def test_spread_of_three_seeds():
    found = spread([0.10, 0.12, 0.17])
    # Deviations -0.03, -0.01, 0.04: variance (0.0009 + 0.0001 + 0.0016) / 2.
    assert (found.mean, found.deviation) == pytest.approx((0.13, math.sqrt(0.0013)))
    assert (found.low, found.high, found.seeds, found.undefined) == (0.10, 0.17, 3, 0)
    failed = spread([0.1, math.nan, 0.2])
    assert (failed.undefined, failed.seeds) == (1, 3) and math.isnan(failed.mean)


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


@pytest.mark.parametrize(
    ("groups", "lower_is_better", "verdicts"),
    [
        (NOISY, False, ["beyond seed noise", "beyond seed noise", "best"]),
        ([[0.1], [0.5]], True, ["best", "seed noise unknown"]),
        # A single seed is judged by the others' noise.
        ([[0.10, 0.12], [0.11], [9.0]], True, ["best", "within seed noise", "beyond seed noise"]),
        ([[math.nan, 0.0], [0.2, 0.3]], True, ["undefined", "best"]),
        ([[math.nan]], True, ["undefined"]),
    ],
)
def test_verdicts(groups, lower_is_better, verdicts):
    compared = compare_with_best([spread(group) for group in groups], lower_is_better=lower_is_better)
    assert [item.verdict for item in compared] == verdicts
