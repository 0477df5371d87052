"""Paired tests of conditions against brute force over all sign patterns and SciPy's Wilcoxon test."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.core.random_streams import random_stream
from pipeline.core.statistics import condition_tests
from pipeline.core.statistics.condition_tests import (
    SSOT_PAIRS,
    TESTED,
    adjusted_by_question,
    compare_conditions,
    comparison_verdict,
    family_signed_rank_test,
    holm,
    method_pairs,
    sign_flip_test,
)
from pipeline.core.statistics.intervals import over_families

MARGINS = dict.fromkeys(TESTED, 0.01)
PAIRS = (*method_pairs(("base", "soft", "hard")), *SSOT_PAIRS)
FAMILIES = np.array(["a", "a", "b", "c", "c", "c", "d"])


def compare(*arguments):
    return SimpleNamespace(**condition_tests.compare(*arguments))


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04: times 4, 3, 2, 1 = .02, .03, .06, .04; monotone .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    # One that is undefined stays in the count: .01 is multiplied by 3, not 2.
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)


def test_sign_flips_agree_with_all_assignments():
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.1, -0.05, 0.25, 0.15])
    exact = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    p = sign_flip_test(differences, 20_000, random_stream(0, "signs"))
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))
    assert sign_flip_test(differences, 0, random_stream(0, "signs"), most_enumerated=8) == pytest.approx(exact)
    assert sign_flip_test(np.zeros(5), 100, random_stream(0, "signs")) == 1.0
    assert math.isnan(sign_flip_test(np.array([]), 100, random_stream(0, "signs")))


def exact_p(differences, families):
    """Share of the sign patterns of families whose sum of mean signed ranks is at least as far from 0."""

    def statistic(values):
        ranks = [
            sum(abs(other) < abs(own) for other in values) + (1 + sum(abs(other) == abs(own) for other in values)) / 2
            for own in values
        ]
        signed = np.sign(values) * ranks
        return abs(sum(signed[families == family].mean() for family in set(families)))

    # Prompts of a family have one sign.
    patterns = [np.array(signs)[[0, 0, 1, 2, 2, 2, 3]] for signs in itertools.product((-1, 1), repeat=4)]
    found = [statistic(np.array(signs) * differences) for signs in patterns]
    return sum(value >= statistic(differences) - 1e-9 for value in found) / len(patterns)


@pytest.mark.parametrize(
    "differences",
    [[0.1, 0.3, -0.2, 0.4, 0.1, 0.6, 0.2], [1, 1, 1, 1, 1, 1, 1], [0.5, -0.5, 0.1, 0.2, 0.3, 0.4, -3.0], [0] * 7],
)
def test_sign_flips_agree_with_all_patterns(differences):
    differences = np.array(differences, dtype=float)
    p = family_signed_rank_test(differences, FAMILIES, 9, random_stream(0))
    assert p == pytest.approx(exact_p(differences, FAMILIES))


def simulated(families, prompts, effect, rng):
    """Own and base of families whose levels differ by far more than the effect, and whose effects differ, too."""
    level = 0.1 + 0.05 * rng.exponential(size=(families, 1))
    own = level + effect + 0.02 * rng.normal(size=(families, 1)) + 0.02 * rng.normal(size=(families, prompts))
    base = level + 0.02 * rng.normal(size=(families, prompts))
    return own.ravel(), base.ravel(), np.repeat([f"f{k}" for k in range(families)], prompts)


@pytest.mark.parametrize(("families", "prompts", "runs"), [(6, 15, 400), (24, 10, 150)])
def test_the_level_holds_where_families_differ(families, prompts, runs):
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(runs):
        own, base, labels = simulated(families, prompts, 0.0, rng)
        rejected += family_signed_rank_test(own - base, labels, 199, rng) <= 0.05
    # 5% of 400 and 150 runs, and two standard errors.
    assert rejected / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_interval_and_verdict_hold_their_level_and_find_what_is_there():
    rng, covered, called, found = np.random.default_rng(1), 0, 0, 0
    for run in range(150):
        for effect in (0.0, -0.1):
            own, base, labels = simulated(6, 3, effect, rng)
            result = compare(own, base, labels, 0, ("simulation", str(run)), 200)
            covered += result.ci_low <= effect <= result.ci_high
            verdict = comparison_verdict((result.ci_low, result.ci_high), result.p, 0.05, 0.01)
            called += effect == 0 and verdict in ("better", "worse")
            found += effect != 0 and verdict == "better"
    assert covered / 300 >= 0.93 and called / 150 <= 0.05 and found / 150 > 0.75


def test_the_difference_is_that_of_the_tables_figures():
    own, other = np.array([0.2, 0.4, 0.5, 0.3, 2.1]), np.array([0.1, 0.45, 0.3, 0.5, 0.2])
    labels = np.array(list("abcde"))
    found = compare(own, other, labels, 0, ("test",), 400)
    # Not the median of differences.
    assert found.value == 0.4 and found.difference == pytest.approx(0.4 - 0.3)
    assert over_families(own - other, labels) == pytest.approx(0.1) and found.ci_low <= 0.1 <= found.ci_high
    found = compare(own, other, labels, 0, ("test",), 400, "family_mean")
    assert found.value == pytest.approx(0.7) and found.difference == pytest.approx(0.7 - 0.31)


def test_undefined_prompts_are_counted_and_left_out_as_in_the_tables():
    own = np.array([0.2, 0.4, 0.1, math.nan, 0.3, 0.3, 0.9])
    found = compare(own, np.full(7, 0.1), FAMILIES, 0, ("test",), 200)
    # Means by family: a 0.3, b 0.1, c 0.3 (two defined), d 0.9.
    assert found.value == pytest.approx(0.3) and found.difference == pytest.approx(0.2)
    assert (found.families, found.prompts, found.undefined) == (4, 6, 1)
    assert found.ci_low <= 0.2 <= found.ci_high and 0 < found.p <= 1
    # A family without a pair makes all of it undefined.
    own[[2, 3]] = math.nan, 0.3
    found = compare(own, np.zeros(7), FAMILIES, 0, ("test",), 200)
    numbers = (found.difference, found.ci_low, found.ci_high, found.p)
    assert all(math.isnan(value) for value in numbers)


@pytest.mark.parametrize(
    ("interval", "p", "margin", "floor_difference", "expected"),
    [
        ((-0.12, -0.08), 0.01, 0.01, 0.0, "better"),
        ((0.08, 0.12), 0.05, 0.01, math.nan, "worse"),
        ((-0.12, -0.08), 0.06, 0.01, 0.0, "cannot tell"),
        # Shown not to be 0, but not to be relevant.
        ((-0.02, -0.008), 0.001, 0.01, 0.0, "cannot tell"),
        ((-0.006, -0.002), 0.001, 0.01, 0.0, "no relevant difference"),
        ((-0.006, 0.002), 0.9, 0.0, 0.0, "cannot tell"),
        # Perfect samplers of these sizes would differ by 0.03.
        ((0.02, 0.05), 0.001, 0.0, 0.03, "cannot tell"),
        ((-0.006, 0.002), 0.9, 0.01, 0.03, "cannot tell"),
        ((math.nan, math.nan), 0.9, 0.01, 0.0, "undefined"),
    ],
)
def test_verdicts(interval, p, margin, floor_difference, expected):
    assert comparison_verdict(interval, p, 0.05, margin, floor_difference) == expected
    mirrored = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert comparison_verdict(interval, p, 0.05, margin, floor_difference, higher_is_better=True) == mirrored


def test_holms_rule_is_over_the_parts_of_a_question():
    rows = [("m", "ood", "soft", 0.03), ("m", "unseen", "soft", 0.001), ("m", "all", "soft", 0.04)]
    rows += [("n", "ood", "soft", 0.02), ("m", "ood", "hard", 0.02)]
    table = pd.DataFrame(rows, columns=["model", "split", "condition", "p"]).assign(metric="x", against="base")
    assert adjusted_by_question(table).tolist() == pytest.approx([0.03, 0.002, 0.04, 0.02, 0.02])


def per_prompt(values):
    """Rows of two models: the given W1 on the PIT scale by condition, with a spread that all conditions share."""
    number = np.arange(24)
    frames = [
        pd.DataFrame({"prompt_id": [f"p{n}" for n in number], "family": [f"f{n % 8}" for n in number]}).assign(
            model=model,
            condition=condition,
            split="ood",
            pit_wasserstein_1_all_answers=value + 0.01 * number,
            logit_kl_nats=math.nan if condition == "ssot" else 1.0 + value,
        )
        for model in ("m", "n")
        for condition, value in values.items()
    ]
    return pd.concat(frames, ignore_index=True)


def test_pairs_are_those_that_exist_and_have_verdicts():
    frame = per_prompt({"base": 0.4, "soft": 0.1, "hard": 0.1, "ssot": 0.3})
    frame = pd.concat([frame, frame.assign(split="unseen")]).sample(frac=1, random_state=0)
    floors = {("m", c, "ood", "pit_wasserstein_1_all_answers"): floor for c, floor in (("ssot", 0.25), ("soft", 0.01))}
    table = compare_conditions(frame, PAIRS, floors, MARGINS, 0, 0.05, 100)
    # Five pairs of two models on two splits, and three of logit KL, which ssot has not.
    assert dict(table.groupby("metric").size()) == {"pit_wasserstein_1_all_answers": 20, "logit_kl_nats": 12}
    for _, members in table.groupby(["model", "metric", "condition", "against"]):
        assert members["p_adjusted"].tolist() == holm(members["p"].to_numpy()).tolist() and len(members) == 2
    chosen = table[(table["split"] == "ood") & (table["metric"] == "pit_wasserstein_1_all_answers")]
    rows = {(row.model, row.condition, row.against): row for row in chosen.itertuples()}
    assert rows["m", "ssot", "base"].difference == pytest.approx(-0.1)
    verdicts = {key: row.verdict for key, row in rows.items()}
    assert verdicts["m", "soft", "base"] == verdicts["n", "hard", "base"] == "better"
    assert verdicts["m", "soft", "hard"] == "no relevant difference"
    # 0.2 worse, but perfect samplers of these sizes would differ by 0.24.
    assert verdicts["m", "ssot", "soft"] == "cannot tell" and verdicts["n", "ssot", "soft"] == "worse"


def test_conditions_that_answered_different_prompts_are_refused():
    frame = per_prompt({"base": 0.4, "soft": 0.1})
    wrong = frame[(frame["condition"] == "soft") | (frame["prompt_id"] != "p3")]
    with pytest.raises(ValueError, match="soft and base answered different prompts of ood"):
        compare_conditions(wrong, PAIRS, {}, MARGINS, 0, 0.05, 50)
