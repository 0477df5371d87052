"""The first screen's verdicts from metrics and tests made by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.core.statistics.frontier import Choice
from pipeline.core.statistics.intervals import bootstrap_families
from pipeline.report.page.answers import (
    W1,
    FirstScreen,
    calibration_answer,
    calibration_verdict,
    cost_answer,
    transfer_answer,
)
from tests.report.conftest import CONDITIONS, metric_frame, metric_row, paired_rows

ONE = {"alpha": "Alpha"}
TWO = {"alpha": "Alpha", "beta": "Beta"}
MARGIN = 0.01


def given(rows=(), models=ONE, *, between=None, beyond=None, over_models=None, against_base=None, choices=None):
    tables = (between, beyond, over_models, against_base or {}, choices or {}, MARGIN)
    return FirstScreen(metric_frame(list(rows)), models, CONDITIONS, *tables)


def w1(condition, value, *, model="alpha", width=0.01, floor=0.02, split="ood"):
    return metric_row("structured", model, condition, split, W1, value, width=width, floor=floor)


def compared(*verdicts, axis="structured", metric=W1, split="ood", condition="soft", against="base"):
    """Paired tests, one per verdict."""
    labels = {"axis": axis, "metric": metric, "split": split, "condition": condition, "against": against}
    return pd.DataFrame({"verdict": verdicts}).assign(model="alpha", **labels)


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [
        (0.025, 0.004, "calibrated"),
        # A perfect sampler's 0.02 and the margin of 0.01: up to 0.03. Intervals that reach 0.02 are no longer enough.
        (0.025, 0.01, "cannot tell"),
        (0.1, 0.09, "cannot tell"),
        (0.1, 0.05, "not calibrated"),
        (0.012, 0.01, "calibrated"),
    ],
)
def test_calibration_is_shown_by_the_upper_end_not_by_a_wide_interval(value, width, expected):
    row = next(metric_frame([w1("soft", value, width=width)]).itertuples())
    assert calibration_verdict(row, MARGIN) == expected


def test_a_perfect_sampler_is_shown_calibrated_and_one_at_the_margin_seldom():
    """The whole way from samples: two prompts per family, 200 answers each, intervals as the evaluations make them."""
    rng, law = np.random.default_rng(0), stats.norm
    reference, width = law.ppf((np.arange(200) + 0.5) / 200), law.ppf(0.95) - law.ppf(0.05)

    def distances(scale, size):
        draws = np.sort(scale * rng.normal(size=(size, 200)), axis=1)
        return np.abs(draws - reference).mean(axis=1) / width

    floor = distances(1.0, 2_000).mean()
    # A scale whose W1 exceeds the floor by the margin.
    worse = 1.1
    margin = distances(worse, 2_000).mean() - floor
    families, shown = np.repeat(np.arange(12), 2), {1.0: 0, worse: 0}
    for scale in shown:
        for _ in range(200):
            values = distances(scale, 24)
            low, high = bootstrap_families(values, families, "family_median", replicates=200, rng=rng)
            row = SimpleNamespace(floor=floor, ci_low=low, ci_high=high)
            shown[scale] += calibration_verdict(row, margin) == "calibrated"
    assert shown[1.0] / 200 > 0.8 and shown[worse] / 200 < 0.06


@pytest.mark.parametrize(
    ("soft", "hard", "verdicts", "words"),
    [
        (0.015, 0.01, ["better"], "Yes: fine-tuned, W1 is shown to be within 0.01 of a perfect sampler's; 1 of 1"),
        (0.1, 0.09, ["better", "better"], "No; 2 of 2 paired tests of single models show it closer than base."),
        (0.1, 0.03, ["better", "cannot tell"], "Not shown; 1 of 2 paired tests"),
        (0.21, 0.3, ["cannot tell"], "No; 0 of 1 paired tests"),
        (0.015, 0.1, ["better"], "In part (1 of 2 comparisons with a perfect sampler); 1 of 1 paired tests"),
    ],
)
def test_calibration_follows_the_tests(soft, hard, verdicts, words):
    # Neither another metric's tests nor those against another condition count.
    others = [compared("better", metric="logit_kl_nats"), compared("better", against="hard")]
    rows = [w1("base", 0.2), w1("soft", soft), w1("hard", hard)]
    assert calibration_answer(given(rows, between=pd.concat([compared(*verdicts), *others]))).short.startswith(words)


def test_what_was_not_evaluated_is_not_known():
    assert calibration_answer(given()).short == "Not known: no structured evaluation has been run."
    undefined = [w1("base", 0.2), w1("soft", math.nan)]
    assert calibration_answer(given(undefined)).short == "No fine-tuned model has been evaluated yet."
    assert transfer_answer(given()).short.startswith("Not known")
    assert cost_answer(given()).short == "Not known: no retention evaluation has been run."


def test_several_models_are_judged_by_the_tests_over_models():
    rows = [w1("soft", 0.025, width=0.004), w1("soft", 0.1, model="beta")]
    over = compared("better", "cannot tell").drop(columns="model")
    found = calibration_answer(given(rows, TWO, between=compared(*["worse"] * 4), over_models=over))
    assert found.question == "Are the models calibrated?"
    assert found.short.startswith("In part (1 of 2 ") and found.short.endswith(
        "; 1 of 2 tests over models show it closer than base."
    )


def test_transfer_counts_the_primary_tests_of_each_pair():
    tests = pd.concat(
        [
            compared("better", axis="open", split="open", metric="unique_fraction"),
            compared("worse", axis="open", split="open", metric="unique_fraction", against="hard"),
            compared("better", axis="novelty", split="curated", metric="utility", against="hard"),
            compared("cannot tell", axis="novelty", split="all", metric="utility", against="hard"),
            compared("better", axis="mcq", split="mcq", metric="mcq_parse_rate_tolerant", against="hard"),
        ]
    )
    assert transfer_answer(given(beyond=tests)).short == (
        "soft against base 1 better; soft against hard 1 worse, 1 cannot tell, of 2 metrics (paired tests of single "
        "models)."
    )
    over = pd.concat([tests[:1], compared("better")])
    found = transfer_answer(given(models=TWO, beyond=tests, over_models=over))
    assert found.short == "soft against base 1 better, of 1 metrics (tests over models)."


def verdicts(together, *by_part, metric="accuracy"):
    parts = {"all": together, **{f"t{place}": verdict for place, verdict in enumerate(by_part)}}
    members = [(split, metric, -0.1, 0.05, 0.5, 0.5, verdict) for split, verdict in parts.items()]
    return paired_rows(members).assign(model="alpha", condition="soft")


def cost(rows=(), beyond=None, **tests):
    return cost_answer(given(rows, against_base=tests, beyond=beyond)).short


def test_cost_follows_the_primary_tests():
    # All tasks and all slices together decide; single tasks do not.
    assert cost(retention=verdicts("kept", "lost", "cannot tell")) == "Nothing that the tests can see."
    undecided = "No loss is shown, but the tests cannot rule one out."
    assert cost(retention=verdicts("cannot tell", "kept")) == undecided
    text = verdicts("kept", "lost", metric="bits_per_byte")
    assert cost(retention=verdicts("lost"), paloma=text) == "Some of what base could do: 1 of 2 tests show a loss."
    text = verdicts("cannot tell", metric="bits_per_byte")
    assert cost(retention=verdicts("lost"), paloma=text).endswith("1 of 2 tests show a loss (1 cannot tell).")


def test_lost_derivations_and_lost_form_are_costs():
    changes = [
        metric_row("retention", "alpha", condition, "gsm8k", "answer_derivation_share", 0.5) | {"change_high": high}
        for condition, high in (("soft", -0.79), ("hard", 0.3))
    ]
    lost = "Some of what base could do: worked answers lose their derivations."
    assert cost(changes, retention=verdicts("kept")) == lost
    # An interval that holds 0 shows no loss.
    held = [{**changes[0], "change_high": 0.01}]
    assert cost(held, retention=verdicts("kept")) == "Nothing that the tests can see."
    parsed = compared("worse", axis="mcq", split="mcq", metric="mcq_parse_rate")
    assert cost(beyond=parsed) == "Some of what base could do: written questions lose their form."
    assert cost(beyond=parsed.assign(verdict="better")) == "Nothing that the tests can see."


def test_the_method_to_choose_is_named_with_who_was_left_out():
    worse = {"half": ("ood", "soft", True), "late": ("unseen", "hard", False), "none": ("ood", "", False)}
    choices = {"alpha": Choice("soft", ("soft", "hard"), worse)}
    found = cost_answer(given(choices=choices, between=compared("cannot tell", "no relevant difference")))
    assert found.short == "Not known: no retention evaluation has been run. To choose: soft."
    assert found.sentences[1:] == [
        "Left out as worse calibrated: half (than soft on held-out families), late (than hard on unseen parameters, by "
        "their intervals, without a test), none (undefined on held-out families).",
        "No test shows soft to be closer to the target than base.",
    ]
    assert len(cost_answer(given(choices=choices, between=compared("cannot tell", "better"))).sentences) == 2
    # Of one method there is nothing to choose.
    alone = cost_answer(given(choices={"alpha": Choice("soft", ("soft",), {})}))
    assert "To choose" not in alone.short and not alone.sentences


def test_choices_of_several_models_are_listed_by_method():
    names = {"alpha": "soft", "beta": "hard", "gamma": "soft", "delta": ""}
    choices = {model: Choice(method, ("soft", "hard"), {}) for model, method in names.items()}
    found = cost_answer(given(models={model: model.title() for model in names}, choices=choices))
    assert found.short.endswith("To choose: soft for Alpha, Gamma; hard for Beta; none for Delta.")
