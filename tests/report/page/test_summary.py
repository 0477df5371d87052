"""The first screen's words, table and forest plots from metrics made by hand."""

import math

import pandas as pd
import pytest

from pipeline.report.page.plots import ForestPanel, forest_plot, forest_plots
from pipeline.report.page.summary import (
    SUMMARY_TITLES,
    Aggregates,
    calibration_answer,
    closeness,
    cost_answer,
    headline,
    reaches_floor,
    summary_rows,
)
from tests.report.conftest import metric_frame, metric_row, paired_rows, sampled

ONE = {"alpha": "Alpha"}
TWO = {"alpha": "Alpha", "beta": "Beta"}


def w1(condition, value, *, model="alpha", width=0.01, floor=0.02, split="ood"):
    return metric_row(
        "structured", model, condition, split, "wasserstein_1_normalised", value, width=width, floor=floor
    )


def answer(rows, models=ONE):
    return calibration_answer(Aggregates(metric_frame(rows), models))


def test_calibrated_as_far_as_can_be_told():
    found = answer([w1("base", 0.2), w1("soft", 0.025), w1("hard", 0.029)])
    assert found.short.startswith("As far as so many answers can tell, yes")
    assert "base 0.200 [0.190, 0.210], 10.0 times a perfect sampler's 0.020" in found.sentences[0]


@pytest.mark.parametrize(
    "soft, hard, words",
    [
        (0.1, 0.09, "No, but closer after fine-tuning: every interval lies below that of base."),
        (0.1, 0.195, "No; closer after fine-tuning in 1 of 2 comparisons with base."),
        (0.21, 0.3, "No, and its intervals do not show that fine-tuning brings it closer."),
        (0.025, 0.1, "In part, but closer after fine-tuning: every interval lies below that of base."),
    ],
)
def test_words_follow_the_intervals(soft, hard, words):
    assert answer([w1("base", 0.2), w1("soft", soft), w1("hard", hard)]).short == words


def test_overlap_is_no_verdict():
    rows = Aggregates(metric_frame([w1("base", 0.2), w1("soft", 0.185), w1("hard", 0.23)]), ONE)
    base, soft, hard = (
        rows.get("structured", "ood", "wasserstein_1_normalised", "alpha", name) for name in ("base", "soft", "hard")
    )
    assert (closeness(soft, base), closeness(hard, base)) == ("cannot tell", "farther")
    assert not reaches_floor(base)


def test_undefined_values_are_left_out_and_no_evaluation_is_said():
    found = answer([w1("base", math.nan), w1("soft", 0.1)])
    assert "base" not in found.sentences[0] and "soft 0.100" in found.sentences[0]
    assert answer([]).short == "Not known: no structured evaluation has been run."
    assert answer([w1("base", 0.2)]).short == "No fine-tuned model has been evaluated yet."


def test_several_models_are_counted():
    rows = [w1("soft", 0.025), w1("soft", 0.1, model="beta"), w1("base", 0.2), w1("base", 0.4, model="beta")]
    found = answer(rows, TWO)
    assert found.question == "Are the models calibrated?"
    # Medians of 0.025 and 0.1, and of their ratios 1.25 and 5; one interval reaches the floor of 0.02.
    expected = "soft 0.062 (median of 2 models, 0.025 to 0.100), 3.1 times a perfect sampler's, which 1 of them reach"
    assert expected in found.sentences[0]


def test_paired_tests_between_conditions_are_counted():
    tests = [
        ("ood", "soft", "base", "better"),
        ("unseen", "soft", "base", "cannot tell"),
        ("ood", "soft", "hard", "cannot tell"),
        ("ood", "ssot", "soft", "worse"),
    ]
    table = pd.DataFrame(tests, columns=["split", "condition", "against", "verdict"])
    rows = Aggregates(metric_frame([w1("base", 0.2), w1("soft", 0.1)]), ONE)
    found = calibration_answer(rows, table.assign(metric="wasserstein_1_normalised"))
    assert found.sentences[1:] == [
        "Paired tests of W1 on the same prompts, one per model and split: soft against base 1 better, 1 cannot tell; "
        "soft against hard 1 cannot tell."
    ]
    assert len(calibration_answer(rows, table.assign(metric="logit_kl_nats")).sentences) == 1


def test_distance_with_invalid_answers_counted():
    rows = [w1("soft", 0.1), metric_row("structured", "alpha", "soft", "ood", "pit_wasserstein_1_all_answers", 0.25)]
    assert answer(rows).sentences[-1].endswith("W1 on the probability scale is soft 0.250.")


def verdicts(together, *by_part, metric="accuracy"):
    parts = {"all": together, **{f"t{place}": verdict for place, verdict in enumerate(by_part)}}
    members = [(split, metric, -0.1, 0.05, 0.5, 0.5, verdict) for split, verdict in parts.items()]
    return paired_rows(members).assign(model="alpha", condition="soft")


def cost(tests, rows=()):
    return cost_answer(Aggregates(metric_frame(list(rows)), ONE), tests, "bits_per_byte")


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


def test_cannot_tell_names_the_sample_size():
    rows = [metric_row("retention", "alpha", c, "all", "gp_irt", 0.5, n=300) for c in ("base", "soft")]
    rows += [metric_row("retention", "alpha", "soft", split, "accuracy", 0.5, n=100) for split in ("t0", "t1")]
    found = cost({"retention": verdicts("cannot tell", "kept", "cannot tell")}, rows)
    assert found.sentences[0].endswith(
        "Tested against base, all tasks together: soft 1 cannot tell. Tested against base, over models and tasks: soft "
        "1 kept, 1 cannot tell at n=100."
    )


def test_lost_form_of_questions_is_a_cost():
    rows = [metric_row("mcq", "alpha", c, "mcq", "mcq_parse_rate", v, n=100) for c, v in (("base", 0.9), ("soft", 0.2))]
    assert cost({}, rows).short == "Some of what base could do: written questions lose their form."
    assert cost({}, rows).sentences == ["Of the questions written on request, base 90%, soft 20% can be parsed."]


def test_table_of_the_first_screen():
    rows = [
        w1("base", 0.2),
        w1("soft", math.nan),
        metric_row("retention", "alpha", "base", "all", "gp_irt", 0.5),
        metric_row("retention", "alpha", "soft", "all", "gp_irt_difference", -0.03),
    ]
    table = summary_rows(Aggregates(metric_frame(rows), ONE), {"retention": verdicts("kept", "lost")}, "bits_per_byte")
    assert [(name, condition) for name, condition, _ in table] == [("Alpha", c) for c in ("base", "soft", "hard")]
    base, soft, hard = (dict(zip(SUMMARY_TITLES[:2], cells[:2], strict=True)) for *_, cells in table)
    assert base["W1, held-out families"].text == "0.200" and base["× perfect sampler"].text == "10.0"
    assert base["W1, held-out families"].title == "n = 100; structured/alpha/base/provenance.json"
    assert soft["W1, held-out families"].text == "—" and hard["W1, held-out families"].text == "not run"
    assert [cell.text for cell in table[0][2]][5:7] == ["0.500", ""]
    assert [cell.text for cell in table[1][2]][5:7] == ["not run", "-0.030"]
    assert table[1][2][-1].text == "tasks kept" and table[2][2][-1].text == "not run"
    assert all(len(cells) == len(SUMMARY_TITLES) for *_, cells in table)


def test_forest_plot_places_values_intervals_and_floors():
    panel = ForestPanel("p", "W1", "structured", "ood", "wasserstein_1_normalised", "W1")
    rows = [
        w1("base", 0.2, width=0.05),
        w1("soft", 0.1),
        w1("soft", 0.3, model="beta"),
        w1("base", 0.4, split="unseen"),
    ]
    plot = forest_plot(panel, metric_frame(rows), TWO, ("base", "soft", "hard"))
    base, soft, floors = plot.figure["data"]
    assert (base["name"], base["x"], base["y"]) == ("base", [0.2], [0])
    assert base["error_x"]["array"] == pytest.approx([0.05]) == base["error_x"]["arrayminus"]
    # Two conditions and a free row for each model.
    assert (soft["x"], soft["y"]) == ([0.1, 0.3], [1, 4])
    assert (floors["x"], sorted(floors["y"])) == ([0.02] * 3, [0, 1, 4])
    assert plot.figure["layout"]["yaxis"]["tickvals"] == [0.5, 3.5]
    assert plot.sources == [f"structured/{pair}/provenance.json" for pair in ("alpha/base", "alpha/soft", "beta/soft")]
    assert forest_plot(panel, metric_frame([w1("base", math.nan)]), ONE, ("base",)) is None


def test_margins_and_zero_line_of_differences():
    rows = [metric_row("paloma", "alpha", "soft", "all", "bits_per_byte_difference_without_bos", 0.1)]
    margins = {"retention": 0.05, "paloma": 0.02}
    plots = forest_plots(metric_frame(rows), ONE, ("base", "soft"), "bits_per_byte_without_bos", margins)
    assert [plot.name for plot in plots] == ["forest-paloma"]
    band, zero = plots[0].figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.02, 0.02) and (zero["x0"], zero["x1"]) == (0, 0)
    assert pd.isna(ForestPanel("p", "t", "a", "s", "m", "u").margin)


def test_headline_of_structured_sampling_is_the_median_over_models():
    values = {
        ("a", "base"): 0.5,
        ("a", "soft"): 0.1,
        ("a", "hard"): 0.2,
        ("b", "base"): math.nan,
        ("b", "soft"): 0.3,
        ("a", "ssot"): 0.4,
    }
    text = headline(metric_frame(sampled(values)))
    assert text.startswith(
        "On held-out families, normalised W1 is base 0.500, soft 0.200, hard 0.200; a perfect sampler scores 0.020."
    )


def test_headline_of_the_other_axes():
    rows = [
        metric_row("open", "a", "base", "open", "top_p_support_size", 3.0),
        metric_row("open", "a", "soft", "open", "top_p_support_size", 300.0),
        metric_row("mcq", "a", "base", "mcq", "mcq_total_variation", math.nan),
        metric_row("mcq", "a", "soft", "mcq", "mcq_total_variation", 0.1),
        metric_row("novelty", "a", "base", "all", "utility_stand_in", 4.0),
        metric_row("novelty", "a", "base", "curated", "utility_stand_in", 1.0),
    ]
    text = headline(metric_frame(rows))
    assert "90% of the first token's probability is on base 3.0, soft 300.0 tokens." in text
    assert "TV" not in text  # base is undefined, so there is nothing to compare with
    assert text.endswith("NoveltyBench utility by a stand-in evaluator, not the benchmark's is base 4.00.")


def test_headline_of_retention_counts_verdicts():
    rows = [
        metric_row("retention", "a", "base", "all", "gp_irt", 0.5),
        metric_row("retention", "a", "soft", "all", "gp_irt", 0.25),
        metric_row("paloma", "a", "base", "all", "bits_per_byte_without_bos", 1.5),
    ]
    tests = {
        "retention": pd.DataFrame(
            {
                "condition": ["soft"] * 3,
                "split": ["tinyMMLU", "tinyGSM8k (strict)", "tinyGSM8k (flexible)"],
                "verdict": ["kept", "lost", "cannot tell"],
                "model": ["a"] * 3,
                "metric": ["accuracy"] * 3,
            }
        ),
        "paloma": pd.DataFrame(columns=["model", "condition", "split", "metric", "verdict"], dtype=str),
    }
    # GSM8K counts once, in its flexible reading.
    assert headline(metric_frame(rows), tests) == (
        "Accuracy on TinyBenchmarks, as gp-IRT estimates it, is base 0.500, soft 0.250. Tested against base, over "
        "models and tasks: soft 1 kept, 1 cannot tell. Held-out text costs base 1.5000 bits per byte."
    )


def test_headline_of_nothing():
    assert headline(metric_frame([])) == "No evaluation has been run yet."
