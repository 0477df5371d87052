"""Rarefaction and entropy estimates against brute force over all samples or subsets."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.language.diversity import chao_wang_jost_entropy, expected_distinct


def test_expected_distinct_equals_all_subsets():
    samples = "aaabbcd--"
    counts = np.array([3, 2, 1, 1])
    for size in range(10):
        subsets = list(itertools.combinations(samples, size))
        distinct = [len(set(subset) - {"-"}) for subset in subsets]
        assert expected_distinct(counts, 9, size) == pytest.approx(np.mean(distinct), abs=1e-12)


def test_corrected_entropy_by_hand():
    # No singleton, no tail. n = 5: 3/5 (1/3 + 1/4) + 2/5 (1/2 + 1/3 + 1/4).
    assert chao_wang_jost_entropy(np.array([3, 2])) == pytest.approx(47 / 60)
    # One singleton, no doubleton: A = 1 and the tail is 0. n = 4: 3/4 (1/3) + 1/4 (1 + 1/2 + 1/3).
    assert chao_wang_jost_entropy(np.array([3, 1])) == pytest.approx(17 / 24)
    # Two samples that differ: A = 2 / 3, 1 + (2 / 2) 3 (log(3 / 2) - 1 / 3) = 3 log(3 / 2).
    assert chao_wang_jost_entropy(np.array([1, 1])) == pytest.approx(3 * math.log(1.5))
    assert chao_wang_jost_entropy(np.array([9])) == 0
    assert math.isnan(chao_wang_jost_entropy(np.array([1]))) and math.isnan(chao_wang_jost_entropy(np.array([])))


def formula(counts):
    """Chao, Wang and Jost (2013) as printed, in decimals enough for its cancellation."""
    with localcontext() as context:
        context.prec = 400
        n, f1, f2 = sum(counts), counts.count(1), counts.count(2)
        harmonic = list(itertools.accumulate((Decimal(1) / k for k in range(1, n)), initial=Decimal(0)))
        seen = sum(Decimal(x) / n * (harmonic[n - 1] - harmonic[x - 1]) for x in counts)
        if f2:
            a = Decimal(2 * f2) / ((n - 1) * f1 + 2 * f2)
        elif f1:
            a = Decimal(2) / ((n - 1) * (f1 - 1) + 2)
        else:
            a = Decimal(1)
        if a == 1:
            return float(seen)
        series = sum((1 - a) ** r / r for r in range(1, n))
        return float(seen + Decimal(f1) / n * (1 - a) ** (1 - n) * (-a.ln() - series))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=40).filter(lambda counts: sum(counts) > 1))
def test_corrected_entropy_equals_the_printed_formula(counts):
    assert chao_wang_jost_entropy(np.array(counts)) == pytest.approx(formula(counts), rel=1e-12, abs=1e-14)
