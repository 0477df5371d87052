"""Paired tests of conditions: what is compared, corrected and said."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pipeline.core.statistics import condition_tests
from pipeline.core.statistics.condition_tests import (
    SSOT_PAIRS,
    TESTED,
    adjusted_by_question,
    compare_conditions,
    comparison_verdict,
    holm,
    method_pairs,
)

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


def test_a_difference_is_of_means_over_families_and_undefined_prompts_are_counted():
    own = np.array([0.2, 0.4, 0.1, math.nan, 0.3, 0.3, 0.9])
    found = compare(own, np.full(7, 0.1), FAMILIES, 0, ("test",))
    # Means by family: a 0.3, b 0.1, c 0.3 (two defined), d 0.9.
    assert found.value == pytest.approx(0.4) and found.difference == pytest.approx(0.3)
    assert (found.families, found.prompts, found.undefined) == (4, 6, 1) and found.p == 0.25
    # A family without a pair makes all of it undefined.
    own[[2, 3]] = math.nan, 0.3
    found = compare(own, np.zeros(7), FAMILIES, 0, ("test",))
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
    other = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert comparison_verdict(interval, p, 0.05, margin, floor_difference, "higher") == other


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
    table = compare_conditions(frame, PAIRS, floors, MARGINS, 0, 0.05)
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
        compare_conditions(wrong, PAIRS, {}, MARGINS, 0, 0.05)
