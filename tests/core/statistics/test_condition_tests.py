"""Paired tests of conditions against brute force over all sign patterns and SciPy's Wilcoxon test."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.condition_tests import (
    COMPARISON_COLUMNS,
    SIGN_FLIPS,
    compare,
    compare_conditions,
    comparison_verdict,
    family_signed_rank_test,
)
from pipeline.core.statistics.paired_tests import holm


def exact_p(differences, families):
    """Share of all sign patterns whose sum of families' mean signed ranks is at least as far from 0."""

    def statistic(values):
        ranks = [
            sum(abs(other) < abs(own) for other in values) + (1 + sum(abs(other) == abs(own) for other in values)) / 2
            for own in values
        ]
        signed = np.sign(values) * ranks
        return abs(sum(signed[families == family].mean() for family in set(families)))

    patterns = list(itertools.product((-1, 1), repeat=len(differences)))
    found = [statistic(np.array(signs) * differences) for signs in patterns]
    return sum(value >= statistic(differences) - 1e-9 for value in found) / len(patterns)


FAMILIES = np.array(["a", "a", "b", "c", "c", "c", "d"])


@pytest.mark.parametrize(
    "differences",
    [
        [0.1, 0.3, -0.2, 0.4, 0.1, 0.6, 0.2],
        [1, 1, 1, 1, 1, 1, 1],
        [0.5, -0.5, 0.1, 0.2, 0.3, 0.4, -3.0],
    ],
)
def test_sign_flips_agree_with_all_patterns(differences):
    differences = np.array(differences, dtype=float)
    expected = exact_p(differences, FAMILIES)
    found = family_signed_rank_test(differences, FAMILIES, 40_000, random_stream(0, "test"))
    # Standard error of a share of 40,000 patterns: at most 0.0025.
    assert found == pytest.approx(expected, abs=0.0105)


def test_one_huge_difference_weighs_as_much_as_the_largest_of_small_ones():
    # Cauchy's W1 may be 1e15.
    families = np.array([f"family {number}" for number in range(8)])
    differences = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1e15])
    small = np.append(differences[:-1], 0.8)
    p = family_signed_rank_test(differences, families, 40_000, random_stream(1, "test"))
    assert p == family_signed_rank_test(small, families, 40_000, random_stream(1, "test"))
    # All eight of one sign: 2 of 256 patterns.
    assert p == pytest.approx(2 / 256, abs=0.002)


def test_without_repeated_families_the_test_is_wilcoxons():
    differences = np.array([0.31, -0.12, 0.55, 0.43, -0.02, 0.77, 0.21, 0.64, -0.35, 0.15])
    families = np.array([f"family {number}" for number in range(10)])
    expected = stats.wilcoxon(differences, method="exact").pvalue
    p = family_signed_rank_test(differences, families, 40_000, random_stream(4, "test"))
    assert p == pytest.approx(expected, abs=0.006)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=7, max_size=7))
def test_p_does_not_depend_on_the_sign_or_scale_of_all_differences(values):
    differences = np.array(values)
    p = family_signed_rank_test(differences, FAMILIES, 500, random_stream(2, "test"))
    assert p == family_signed_rank_test(-differences, FAMILIES, 500, random_stream(2, "test"))
    assert p == family_signed_rank_test(4 * differences, FAMILIES, 500, random_stream(2, "test"))
    assert 1 / 501 <= p <= 1


def test_no_difference_is_no_evidence_and_no_pairs_no_p():
    assert family_signed_rank_test(np.zeros(7), FAMILIES, 99, random_stream(3, "test")) == 1.0
    assert math.isnan(family_signed_rank_test(np.zeros(0), FAMILIES[:0], 99, random_stream(3, "test")))


def test_compare_has_the_median_of_family_means_and_counts_the_undefined():
    own = np.array([0.2, 0.4, 0.1, math.nan, 0.3, 0.3, 0.9])
    found = compare(own, np.full(7, 0.1), FAMILIES, 0, ("test",), 200)
    # Means by family: a 0.2, b 0, c 0.2 (two defined), d 0.8.
    assert found.difference == pytest.approx(0.2) and (found.prompts, found.undefined) == (6, 1)
    assert found.ci_low <= 0.2 <= found.ci_high and 0 < found.p <= 1


def test_a_family_without_a_pair_makes_the_comparison_undefined():
    own = np.array([0.2, 0.4, math.nan, 0.1, 0.3, 0.3, 0.9])
    found = compare(own, np.zeros(7), FAMILIES, 0, ("test",), 200)
    assert all(math.isnan(value) for value in (found.difference, found.ci_low, found.ci_high, found.p))
    assert comparison_verdict(found.difference, 0.0, math.nan, 0.05) == "undefined"


@pytest.mark.parametrize(
    ("difference", "floor_difference", "p", "expected"),
    [
        (-0.1, 0.0, 0.01, "better"),
        (0.1, math.nan, 0.05, "worse"),
        (-0.1, 0.0, 0.06, "cannot tell"),
        (0.02, 0.03, 0.001, "cannot tell"),
        (-0.02, 0.03, 0.001, "cannot tell"),
        (0.04, 0.03, 0.001, "worse"),
    ],
)
def test_verdicts(difference, floor_difference, p, expected):
    assert comparison_verdict(difference, floor_difference, p, 0.05) == expected


def per_prompt(values, prompts=12):
    """Rows of two models: the given W1 on the PIT scale by condition, with a spread that all conditions share."""
    rows = []
    for model in ("m", "n"):
        for condition, value in values.items():
            for number in range(prompts):
                rows.append(
                    {
                        "model": model,
                        "condition": condition,
                        "prompt_id": f"p{number}",
                        "split": "ood",
                        "family": f"f{number % 6}",
                        "pit_wasserstein_1_all_answers": value + 0.01 * number,
                        "logit_kl_nats": math.nan if condition == "ssot" else 1.0 + value,
                    }
                )
    return pd.DataFrame(rows)


def test_pairs_are_those_that_exist_and_p_values_are_adjusted_over_models_and_pairs():
    frame = per_prompt({"base": 0.4, "soft": 0.1, "hard": 0.1, "ssot": 0.3})
    floors = {
        ("m", "ssot", "ood", "pit_wasserstein_1_all_answers"): 0.25,
        ("m", "soft", "ood", "pit_wasserstein_1_all_answers"): 0.01,
    }
    table = compare_conditions(frame.sample(frac=1, random_state=0), floors, 0, 0.05, 100)
    assert list(table.columns) == list(COMPARISON_COLUMNS)
    # Four pairs of two models, and three of logit KL, which ssot has not.
    sizes = table.groupby("metric").size()
    assert dict(sizes) == {"pit_wasserstein_1_all_answers": 8, "logit_kl_nats": 6}
    for _, members in table.groupby("metric"):
        assert members["p_adjusted"].tolist() == holm(members["p"].to_numpy()).tolist()
    own = table[(table["model"] == "m") & (table["metric"] == "pit_wasserstein_1_all_answers")]
    differences = dict(zip(zip(own["condition"], own["against"], strict=True), own["difference"], strict=True))
    assert differences == pytest.approx(
        {("soft", "base"): -0.3, ("hard", "base"): -0.3, ("soft", "hard"): 0.0, ("ssot", "soft"): 0.2}, abs=1e-12
    )
    verdicts = {
        (row.model, row.condition, row.against): row.verdict
        for row in table.itertuples()
        if row.metric == "pit_wasserstein_1_all_answers"
    }
    assert verdicts["m", "soft", "base"] == verdicts["n", "hard", "base"] == "better"
    assert verdicts["m", "soft", "hard"] == "cannot tell"
    # 0.2 worse, but perfect samplers of these sizes would differ by 0.24.
    assert verdicts["m", "ssot", "soft"] == "cannot tell" and verdicts["n", "ssot", "soft"] == "worse"


def test_the_least_p_survives_the_adjustment_over_twelve_models():
    assert 48 / (SIGN_FLIPS + 1) < 0.05


def test_conditions_that_answered_different_prompts_are_refused():
    frame = per_prompt({"base": 0.4, "soft": 0.1})
    with pytest.raises(ValueError, match="soft and base answered different prompts of ood"):
        compare_conditions(frame[(frame["condition"] == "soft") | (frame["prompt_id"] != "p3")], {}, 0, 0.05, 50)


def test_nothing_to_compare_is_an_empty_table():
    assert compare_conditions(per_prompt({"base": 0.4}), {}, 0, 0.05, 50).empty
