"""The first screen's words from metrics and tests made by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pipeline.core.statistics.frontier import Choice
from pipeline.core.statistics.intervals import bootstrap_families
from pipeline.report.across_axes.frontier import ANCHOR_KL
from pipeline.report.page.aggregates import W1, Aggregates
from pipeline.report.page.answers import (
    calibration_answer,
    calibration_verdict,
    cost_answer,
    transfer_answer,
)
from tests.report.conftest import CONDITIONS, metric_frame, metric_row, paired_rows

ONE = {"alpha": "Alpha"}
TWO = {"alpha": "Alpha", "beta": "Beta"}


def w1(condition, value, *, model="alpha", width=0.01, floor=0.02, split="ood"):
    return metric_row(
        "structured", model, condition, split, "wasserstein_1_normalised", value, width=width, floor=floor
    )


MARGIN = 0.01


def answer(rows, models=ONE, **tests):
    return calibration_answer(Aggregates(metric_frame(rows), models, CONDITIONS), MARGIN, **tests)


def compared(*verdicts, against="base", metric=W1):
    """Paired tests of soft, one per verdict."""
    return pd.DataFrame({"verdict": verdicts}).assign(metric=metric, split="ood", condition="soft", against=against)


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
    row = Aggregates(metric_frame([w1("soft", value, width=width)]), ONE, CONDITIONS).get(
        "structured", "ood", W1, "alpha", "soft"
    )
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


def test_calibrated_in_words():
    found = answer([w1("base", 0.2), w1("soft", 0.022, width=0.005), w1("hard", 0.024, width=0.005)])
    assert found.short.startswith("One model: there is no inference over models. Yes: fine-tuned, its W1 is shown")
    assert "within 0.01 of a perfect sampler's" in found.short
    assert "base 0.200 [0.190, 0.210], 10.0 times a perfect sampler's 0.020 (not calibrated)" in found.sentences[0]


@pytest.mark.parametrize(
    ("soft", "hard", "verdicts", "words"),
    [
        (0.1, 0.09, ["better", "better"], "No; closer after fine-tuning in 2 of 2 tests against base."),
        (0.1, 0.03, ["better", "cannot tell"], "Not shown; closer after fine-tuning in 1 of 2 tests against base."),
        (0.21, 0.3, ["cannot tell"], "No, and no test shows that fine-tuning brings it closer."),
        (
            0.015,
            0.1,
            ["better"],
            "In part (1 of 2 comparisons with a perfect sampler); closer after fine-tuning in 1 of 1 tests against "
            "base.",
        ),
    ],
)
def test_words_follow_the_tests(soft, hard, verdicts, words):
    rows = [w1("base", 0.2), w1("soft", soft), w1("hard", hard)]
    found = answer(rows, comparisons=compared(*verdicts))
    assert found.short == f"One model: there is no inference over models. {words}"


def test_undefined_values_are_left_out_and_no_evaluation_is_said():
    found = answer([w1("base", math.nan), w1("soft", 0.1)])
    assert "base" not in found.sentences[0] and "soft 0.100" in found.sentences[0]
    assert answer([]).short == "Not known: no structured evaluation has been run."
    assert answer([w1("base", 0.2)]).short.endswith("No fine-tuned model has been evaluated yet.")


def over(axis, metric, split, verdict, better=2, models=2, difference=-0.1):
    numbers = {
        "difference": difference,
        "ci_low": difference - 0.02,
        "ci_high": difference + 0.02,
        "p_adjusted": 0.0004,
    }
    labels = {"axis": axis, "metric": metric, "split": split, "condition": "soft", "against": "base"}
    return {**labels, **numbers, "verdict": verdict, "better": better, "models": models}


def test_several_models_have_one_test_in_the_first_sentence():
    rows = [
        w1("soft", 0.025, width=0.004),
        w1("soft", 0.1, model="beta"),
        w1("base", 0.2),
        w1("base", 0.4, model="beta"),
    ]
    tests = pd.DataFrame([over("structured", W1, "unseen", "cannot tell"), over("structured", W1, "ood", "better")])
    found = answer(rows, TWO, over_models=tests)
    assert found.question == "Are the models calibrated?"
    assert found.short.startswith(
        "Over 2 models, W1 (normalised) on held-out families: soft against base better (-0.1000 [-0.1200, -0.0800], "
        "better in 2 of 2, p <0.001). In part (1 of 2"
    )
    assert found.sentences[1].startswith(
        "Over 2 models, W1 (normalised) on unseen parameters: soft against base cannot"
    )
    # Medians of 0.025 and 0.1, and of their ratios 1.25 and 5; one is shown to be within the margin of 0.02.
    expected = "soft 0.062 (median of 2 models, 0.025 to 0.100), 3.1 times a perfect sampler's; 1 shown to be within"
    assert expected in found.sentences[0]
    assert answer(rows, TWO).short.startswith("There is no inference over models: fewer than two")


def test_transfer_in_words():
    def row(axis, split, metric, other, verdict, difference):
        return {**over(axis, metric, split, verdict, difference=difference), "against": other}

    tests = pd.DataFrame(
        [
            row("open", "open", "unique_fraction", "base", "better", 0.1),
            row("open", "open", "unique_fraction", "hard", "worse", -0.05),
            row("novelty", "curated", "utility", "hard", "better", 0.1),
            row("novelty", "all", "utility", "hard", "cannot tell", 0.1),
            row("mcq", "mcq", "mcq_parse_rate_tolerant", "hard", "better", 0.2),
        ]
    )
    found = transfer_answer(Aggregates(metric_frame([w1("soft", 0.1)]), ONE, CONDITIONS), tests, None)
    assert found.short == "soft against base 1 better; soft against hard 1 worse, 1 cannot tell, of 2 metrics."
    assert found.metrics == ["Unique output rate", "Utility"] and not found.sentences
    assert found.tests == {
        "soft − base": [("+0.100 [+0.080, +0.120]", "better"), ("", "")],
        "soft − hard": [("-0.050 [-0.070, -0.030]", "worse"), ("+0.10 [+0.08, +0.12]", "cannot tell")],
    }
    models = pd.DataFrame([over("open", "unique_fraction", "open", "better", difference=0.1)])
    found = transfer_answer(Aggregates(metric_frame([w1("soft", 0.1)]), TWO, CONDITIONS), tests, models)
    assert found.short == "Over models: soft against base 1 better, of 2 metrics." and len(found.sentences) == 1
    assert transfer_answer(Aggregates(metric_frame([]), ONE, CONDITIONS), None, None).short.startswith("Not known")


def test_paired_tests_between_conditions_are_counted():
    tests = [
        ("ood", "soft", "base", "better"),
        ("unseen", "soft", "base", "cannot tell"),
        ("ood", "soft", "hard", "cannot tell"),
        ("ood", "ssot", "soft", "worse"),
    ]
    table = pd.DataFrame(tests, columns=["split", "condition", "against", "verdict"])
    rows = Aggregates(metric_frame([w1("base", 0.2), w1("soft", 0.1)]), ONE, CONDITIONS)
    found = calibration_answer(rows, MARGIN, table.assign(metric="wasserstein_1_normalised"))
    assert found.sentences[1:] == [
        "Paired tests of W1 on the same prompts, one per model and split: soft against base 1 better, 1 cannot tell; "
        "soft against hard 1 cannot tell."
    ]
    assert len(calibration_answer(rows, MARGIN, table.assign(metric="logit_kl_nats")).sentences) == 1


def test_distance_with_invalid_answers_counted():
    rows = [w1("soft", 0.1), metric_row("structured", "alpha", "soft", "ood", "pit_wasserstein_1_all_answers", 0.25)]
    assert answer(rows).sentences[-1].endswith("W1 on the probability scale is soft 0.250.")


def verdicts(together, *by_part, metric="accuracy"):
    parts = {"all": together, **{f"t{place}": verdict for place, verdict in enumerate(by_part)}}
    members = [(split, metric, -0.1, 0.05, 0.5, 0.5, verdict) for split, verdict in parts.items()]
    return paired_rows(members).assign(model="alpha", condition="soft")


def cost(tests, rows=()):
    return cost_answer(Aggregates(metric_frame(list(rows)), ONE, CONDITIONS), tests, "bits_per_byte")


def test_cost_in_words():
    assert cost({}).short == "Not known: no retention evaluation has been run."
    # The primary questions, all tasks and all slices together, decide; single tasks do not.
    assert cost({"retention": verdicts("kept", "lost", "cannot tell")}).short == "Nothing that the tests can see."
    undecided = cost({"retention": verdicts("cannot tell", "kept")})
    assert undecided.short == "No loss is shown, but the tests cannot rule one out."
    lost = cost({"retention": verdicts("lost"), "paloma": verdicts("kept", "lost", metric="bits_per_byte")})
    assert lost.short == "Some of what base could do: 1 of 2 tests show a loss."
    unsure = cost({"retention": verdicts("lost"), "paloma": verdicts("cannot tell", metric="bits_per_byte")})
    assert unsure.short == "Some of what base could do: 1 of 2 tests show a loss (1 cannot tell)."
    # Tests of other axes are not tests of retention.
    assert cost({"structured": verdicts("lost")}).short == "Not known: no retention evaluation has been run."


def test_methods_of_one_verdict_stand_together():
    rows = [metric_row("retention", "alpha", c, "all", "gp_irt", 0.5, n=300) for c in CONDITIONS]
    tests = [verdicts("cannot tell", "kept"), verdicts("cannot tell").assign(condition="hard")]
    assert cost({"retention": pd.concat(tests)}, rows).sentences == [
        "Accuracy on TinyBenchmarks (gp-IRT) is base 0.500, soft 0.500, hard 0.500. Tested against base, all tasks "
        "together: soft, hard 1 cannot tell."
    ]


def test_gsm8k_alone_is_called_so():
    rows = [metric_row("retention", "alpha", c, "all", "accuracy", 0.5, n=1319) for c in CONDITIONS]
    assert cost({}, rows).sentences == ["Accuracy on GSM8K is base 0.500, soft 0.500, hard 0.500."]


def test_lost_derivations_are_a_cost():
    shares = {"base": 0.79, "soft": 0.0, "hard": 0.5}
    rows = [metric_row("retention", "alpha", c, "gsm8k", "answer_derivation_share", v) for c, v in shares.items()]

    def changed(**changes):
        name = "answer_derivation_share_difference"
        return [*rows, *(metric_row("retention", "alpha", c, "gsm8k", name, v) for c, v in changes.items())]

    kept = {"retention": verdicts("kept")}
    lost = cost(kept, changed(soft=-0.79, hard=-0.29))
    assert lost.short == "Some of what base could do: worked answers lose their derivations."
    assert "Of the answers to gsm8k, base 79%, soft 0%, hard 50% show a derivation." in lost.sentences
    assert cost(kept, changed(soft=0.01, hard=-0.005)).short == "Nothing that the tests can see."


def test_lost_form_of_questions_is_a_cost():
    rows = [metric_row("mcq", "alpha", c, "mcq", "mcq_parse_rate", v, n=100) for c, v in (("base", 0.9), ("soft", 0.2))]
    assert cost({}, rows).short == "Some of what base could do: written questions lose their form."
    assert cost({}, rows).sentences == ["Of the questions written on request, base 90%, soft 20% can be parsed."]


def anchored(*conditions, model="alpha"):
    return [
        metric_row("anchors", model, name, "all", "anchor_kl_nats", 0.1 * (1 + n)) for n, name in enumerate(conditions)
    ]


def chosen(choice, measure=ANCHOR_KL, rows=(), models=ONE, **tables):
    choices = {model: (choice, measure) for model in models}
    return cost_answer(
        Aggregates(metric_frame(list(rows)), models, CONDITIONS), {}, "bits_per_byte", choices=choices, **tables
    )


def test_the_method_to_choose_is_named_with_what_it_costs_and_who_was_left_out():
    choice = Choice("soft", ("soft", "hard"), {"half": ("ood", "soft", True), "late": ("unseen", "hard", False)})
    found = chosen(choice, rows=anchored("soft", "hard"))
    assert found.short == "Not known: no retention evaluation has been run. To choose: soft."
    rule, left_out = found.sentences
    assert rule.startswith("Rule: of the methods that are not shown to be worse calibrated than another")
    assert rule.endswith("nats per token: soft 0.1000 [0.0900, 0.1100], hard 0.2000 [0.1900, 0.2100].")
    assert left_out == (
        "Left out as worse calibrated: half (than soft on held-out families), late (than hard on unseen parameters, by "
        "their intervals, without a test)."
    )


def test_no_method_is_named_without_a_cost_or_where_each_is_worse_than_another():
    found = chosen(Choice("", ("soft", "hard"), {}), None)
    assert found.short.endswith("No method can be named.")
    assert "Neither divergence nor bits per byte was measured under all of soft, hard." in found.sentences[0]
    found = chosen(Choice("", (), {"soft": ("ood", "hard", True), "hard": ("unseen", "soft", True)}), None)
    assert found.sentences[0].endswith("Each is shown to be worse than another on some split.")
    # Of one method there is nothing to choose.
    assert chosen(Choice("soft", ("soft",), {})).short == "Not known: no retention evaluation has been run."


def test_a_chosen_method_that_is_no_better_than_base_is_said_to_be_so():
    choice, rows = Choice("soft", ("soft", "hard"), {}), anchored("soft", "hard")
    tests = compared("cannot tell", "no relevant difference").assign(model="alpha")
    assert (
        "No test shows soft to be closer to the target than base."
        in chosen(choice, rows=rows, comparisons=tests).sentences
    )
    tests = compared("cannot tell", "better").assign(model="alpha")
    assert len(chosen(choice, rows=rows, comparisons=tests).sentences) == 1


def test_cost_at_equal_calibration_is_said_of_the_chosen_method():
    labels = {"model": "alpha", "metric": "anchor_kl_nats", "reference": "base, soft_half, soft"}
    numbers = {"difference": -0.2, "ci_low": -0.3, "ci_high": -0.1, "verdict": "costs less"}
    table = pd.DataFrame([{**labels, **numbers, "condition": name} for name in ("hard", "other")])
    choice, rows = Choice("hard", ("soft", "hard"), {}), anchored("soft", "hard")
    assert chosen(choice, rows=rows, at_equal_calibration=table).sentences[-1] == (
        "At equal calibration, against mixtures of base, soft_half, soft: hard costs less (-0.2000 [-0.3000, -0.1000])."
    )


def test_choices_of_several_models_are_counted():
    models = {**TWO, "gamma": "Gamma"}
    choices = {
        "alpha": (Choice("soft", ("soft", "hard"), {}), ANCHOR_KL),
        "beta": (Choice("hard", ("soft", "hard"), {}), ANCHOR_KL),
        "gamma": (Choice("soft", ("soft", "hard"), {}), ANCHOR_KL),
    }
    rows = Aggregates(metric_frame([]), models, CONDITIONS)
    found = cost_answer(rows, {}, "bits_per_byte", choices=choices)
    assert found.short.endswith("To choose: soft (2 of 3 models), hard (1 of 3 models).")
    assert found.sentences[-1].endswith("By model: soft for Alpha, Gamma; hard for Beta.")
