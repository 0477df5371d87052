"""The first screen's verdicts from metrics and tests made by hand."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.config.params import load_params
from pipeline.core.statistics.frontier import Choice
from pipeline.core.statistics.intervals import at_places, combine, family_draws, percentile_interval
from pipeline.report.page.answers import (
    W1,
    PairedTests,
    calibration_answer,
    calibration_verdict,
    cost_answer,
    transfer_answer,
)
from tests.report.conftest import context_of, metric_frame, metric_row, paired_rows

MARGIN = 0.01


@pytest.fixture(scope="module")
def two(two_models):
    """Parameters of two models, base, soft and hard."""
    params = load_params(two_models)
    return dataclasses.replace(params, tests=dataclasses.replace(params.tests, wasserstein_margin=MARGIN))


@pytest.fixture(scope="module")
def one(two):
    return dataclasses.replace(two, models={"alpha": two.models["alpha"]})


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
            resampled = at_places(values[None], family_draws(families, 200, rng))[0]
            low, high = percentile_interval(combine(resampled, "family_median"))
            row = SimpleNamespace(floor=floor, ci_low=low, ci_high=high)
            shown[scale] += calibration_verdict(row, margin) == "calibrated"
    assert shown[1.0] / 200 > 0.8 and shown[worse] / 200 < 0.06


@pytest.mark.parametrize(
    ("soft", "hard", "verdicts", "words"),
    [
        (0.015, 0.01, ["better"], "Yes: fine-tuned, W1 is shown to be within 0.01 of a perfect sampler's; 1 of 1"),
        (0.1, 0.09, ["better", "better"], "No; 2 of 2 paired tests show it closer than base."),
        (0.1, 0.03, ["better", "cannot tell"], "Not shown; 1 of 2 paired tests"),
        (0.21, 0.3, ["cannot tell"], "No; 0 of 1 paired tests"),
        (0.015, 0.1, ["better"], "In part (1 of 2 comparisons with a perfect sampler); 1 of 1 paired tests"),
    ],
)
def test_calibration_follows_the_tests(one, soft, hard, verdicts, words):
    # Neither another metric's tests nor those against another condition count.
    others = [compared("better", metric="logit_kl_nats"), compared("better", against="hard")]
    context = context_of(one, [w1("base", 0.2), w1("soft", soft), w1("hard", hard)])
    tests = PairedTests(between=pd.concat([compared(*verdicts), *others]))
    assert calibration_answer(context, tests).short.startswith(words)


def test_what_was_not_evaluated_is_not_known(one):
    nothing = context_of(one, [])
    assert calibration_answer(nothing, PairedTests()).short == "Not known: no structured evaluation has been run."
    undefined = context_of(one, [w1("base", 0.2), w1("soft", math.nan)])
    assert calibration_answer(undefined, PairedTests()).short == "No fine-tuned model has been evaluated yet."
    assert transfer_answer(nothing, PairedTests()).short.startswith("Not known")
    assert cost_answer(nothing, PairedTests(), {}).short == "Not known: no retention evaluation has been run."


def test_transfer_counts_the_primary_tests_of_each_pair(one, two):
    tests = pd.concat(
        [
            compared("better", axis="open", split="open", metric="unique_fraction"),
            compared("worse", axis="open", split="open", metric="unique_fraction", against="hard"),
            compared("better", axis="novelty", split="curated", metric="utility", against="hard"),
            compared("cannot tell", axis="novelty", split="all", metric="utility", against="hard"),
        ]
    )
    assert transfer_answer(context_of(one, []), PairedTests(beyond=tests)).short == (
        "soft against base 1 better; soft against hard 1 worse, 1 cannot tell, of 2 metrics."
    )


def verdicts(together, *by_part, metric="accuracy"):
    parts = {"all": together, **{f"t{place}": verdict for place, verdict in enumerate(by_part)}}
    members = [(split, metric, -0.1, 0.05, 0.5, 0.5, verdict) for split, verdict in parts.items()]
    return paired_rows(members).assign(model="alpha", condition="soft")


def test_cost_follows_the_primary_tests(one):
    def cost(*tables):
        return cost_answer(context_of(one, []), PairedTests(against_base=tables), {}).short

    # All tasks and all slices together decide; single tasks do not.
    assert cost(verdicts("kept", "lost", "cannot tell")) == "Nothing that the tests can see."
    assert cost(verdicts("cannot tell", "kept")) == "No loss is shown, but the tests cannot rule one out."
    text = verdicts("kept", "lost", metric="bits_per_byte")
    assert cost(verdicts("lost"), text) == "Some of what base could do: 1 of 2 tests show a loss."
    text = verdicts("cannot tell", metric="bits_per_byte")
    assert cost(verdicts("lost"), text).endswith("1 of 2 tests show a loss (1 cannot tell).")


def test_lost_derivations_and_lost_form_are_costs(one):
    def cost(rows=(), **tests):
        return cost_answer(context_of(one, list(rows)), PairedTests(**tests), {}).short

    name, kept = "answer_derivation_share", [verdicts("kept")]
    changes = [
        metric_row("retention", "alpha", condition, "gsm8k", name, 0.5) | {"change_high": high}
        for condition, high in (("soft", -0.79), ("hard", 0.3))
    ]
    lost = "Some of what base could do: worked answers lose their derivations."
    assert cost(changes, against_base=kept) == lost
    # An interval that holds 0 shows no loss.
    assert cost([{**changes[0], "change_high": 0.01}], against_base=kept) == "Nothing that the tests can see."
    parsed = compared("worse", axis="mcq", split="mcq", metric="mcq_parse_rate")
    assert cost(beyond=parsed) == "Some of what base could do: written questions lose their form."
    assert cost(beyond=parsed.assign(verdict="better")) == "Nothing that the tests can see."


def test_choices_are_listed_by_method(one, two):
    choices = {
        "alpha": Choice("soft", ("soft", "hard"), {}),
        "beta": Choice("", (), {"soft": ("ood", "", False)} | {"hard": ("ood", "", False)}),
    }
    assert cost_answer(context_of(one, []), PairedTests(), {"alpha": choices["alpha"]}).short.endswith(
        " To choose: soft."
    )
    found = cost_answer(context_of(two, []), PairedTests(), choices)
    assert found.short.endswith("To choose: soft for Alpha_1B; none for Beta 2B.")
    # Of one method there is nothing to choose.
    alone = cost_answer(context_of(one, []), PairedTests(), {"alpha": Choice("soft", ("soft",), {})})
    assert "To choose" not in alone.short
