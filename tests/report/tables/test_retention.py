"""Tables 2 and 21 to 23: means over the same models, variants without BOS, what is left out."""

import math

import pytest

from pipeline.axes.paloma.report import perplexity_table
from pipeline.axes.retention.report import ANSWERS, model_table
from pipeline.config.params import load_params
from pipeline.report.axis_table import axis_table
from pipeline.report.tables import table_text
from pipeline.report.tables.retention import (
    GP_IRT,
    GSM8K_ACCURACY,
    average_table,
    difference_table,
    one_name_per_variant,
    paloma_measures,
    retention_summary,
    split_table,
)
from tests.report.conftest import CONDITIONS, metric_frame, metric_row

NAMES = {"a": "A", "b": "B"}


@pytest.fixture(scope="module")
def config(two_models):
    return load_params(two_models)


def scored(axis, metric, values, decimals_n=100):
    """Rows for {(model, condition, split): value}."""
    return [metric_row(axis, *names, metric, value, n=decimals_n) for names, value in values.items()]


def texts(table, line):
    """Cells of a body line of the Markdown table."""
    return [cell.strip() for cell in table_text.to_markdown(table).splitlines()[line + 4].split("|")[1:-1]]


def averages(metrics, names, measure=GP_IRT):
    return average_table("t", metrics, names, CONDITIONS, "T", [measure], "Task", "items")


def test_summary_has_both_axes_and_the_better_direction_of_each():
    rows = scored("retention", "gp_irt", {("a", "base", "all"): 0.5, ("a", "soft", "all"): 0.4})
    rows += scored("paloma", "perplexity", {("a", "base", "all"): 9.0, ("a", "soft", "all"): 8.0})
    table = retention_summary(metric_frame(rows), {"a": "A"}, CONDITIONS, "once")
    cells = texts(table, 0)
    assert cells[1].startswith("**0.500**") and cells[2].startswith("0.400")
    assert cells[4].startswith("9.00") and cells[5].startswith("**8.00**")
    assert "GSM8K counted once" in table.note and table.measures[1].title == "PALOMA perplexity"
    assert retention_summary(metric_frame([]), NAMES, CONDITIONS, "once") is None


def test_summary_falls_back_to_the_variant_without_bos():
    rows = scored("paloma", "perplexity_without_bos", {("a", "base", "all"): 9.0})
    assert [measure.metric for measure in paloma_measures(metric_frame(rows))] == [
        "perplexity_without_bos",
        "bits_per_byte_without_bos",
    ]
    table = retention_summary(metric_frame(rows), {"a": "A"}, CONDITIONS, "once")
    assert table.measures[1].title == "PALOMA perplexity without BOS"
    rows += scored("paloma", "perplexity", {("a", "base", "all"): 5.0})
    assert paloma_measures(metric_frame(rows))[0].metric == "perplexity"


def test_where_nothing_was_scored_with_bos_models_without_one_share_the_name():
    rows = scored("paloma", "perplexity_without_bos", {("a", "base", "all"): 9.0})
    rows += scored("paloma", "perplexity", {("b", "base", "all"): 5.0})
    rows += scored("retention", "gp_irt", {("b", "base", "all"): 0.5})
    metrics = one_name_per_variant(metric_frame(rows))
    assert list(metrics["metric"]) == ["perplexity_without_bos"] * 2 + ["gp_irt"]
    table = retention_summary(metrics, NAMES, CONDITIONS, "once")
    assert texts(table, 0)[4].startswith("**9.00**") and texts(table, 1)[4].startswith("**5.00**")
    # With any model under both variants, the default is what models without BOS have.
    both = metric_frame([*rows, *scored("paloma", "perplexity", {("a", "base", "all"): 8.0})])
    assert one_name_per_variant(both) is both


def test_differences_follow_the_variant():
    rows = scored("paloma", "bits_per_byte_difference_without_bos", {("a", "soft", "all"): 0.25})
    table = difference_table(metric_frame(rows), {"a": "A"}, CONDITIONS)
    assert table.measures[0].title == "Bits-per-byte difference without BOS" and texts(table, 0)[1][:6] == "0.2500"


def test_a_model_without_bos_has_one_variant(config):
    values = {(model, c, "all"): 2.0 for model in NAMES for c in CONDITIONS}
    rows = scored("paloma", "perplexity", values)
    rows += scored("paloma", "perplexity_without_bos", {("a", c, "all"): 7.0 for c in CONDITIONS})
    table = perplexity_table(metric_frame(rows), NAMES, CONDITIONS, config.paloma)
    assert texts(table, 0)[4].startswith("**7.00**") and texts(table, 1)[4:] == ["— (no BOS to leave out)"] * 3
    assert "without BOS: the paper's variant" in table.note and table.missing == []
    single = perplexity_table(metric_frame(scored("paloma", "perplexity", values)), NAMES, CONDITIONS, config.paloma)
    assert "without BOS" not in single.note and len(single.measures) == 1


def test_a_condition_that_was_not_run_is_not_one_without_bos(config):
    rows = scored("paloma", "perplexity", {("a", "base", "all"): 2.0})
    rows += scored("paloma", "perplexity_without_bos", {("a", "base", "all"): 3.0})
    table = perplexity_table(metric_frame(rows), {"a": "A"}, CONDITIONS, config.paloma)
    assert texts(table, 0)[5:] == ["not run"] * 2 and table.missing == ["a hard", "a soft"]


def test_means_are_over_the_models_with_every_condition():
    values = {
        ("a", "base", "t"): 0.2,
        ("a", "soft", "t"): 0.4,
        ("b", "base", "t"): 0.6,
        ("b", "soft", "t"): 1.0,
        ("c", "base", "t"): 0.9,
        ("d", "base", "t"): 0.9,
        ("d", "soft", "t"): math.nan,
    }
    metrics = metric_frame(scored("retention", "gp_irt", values))
    names = {**NAMES, "c": "C", "d": "D"}
    table = averages(metrics, names)
    (measure,) = table.measures
    base, soft, hard = (table.cell("t", measure, condition) for condition in CONDITIONS)
    assert (base.value, soft.value, hard) == (pytest.approx(0.4), pytest.approx(0.7), None)
    assert base.n == soft.n == 2 and math.isnan(base.ci_low)
    assert base.provenance == "retention/a/base/provenance.json; retention/b/base/provenance.json"
    assert "Mean over 2 models" in table.note
    assert "Left out, because a condition is missing or undefined: C, D." in table.note
    # Rows are tasks: nothing counts as a missing evaluation of a model "t".
    assert table.absent == set() and texts(table, 0) == ["t", "0.400", "**0.700**", "not run"]


def test_no_model_with_every_condition_is_undefined_not_zero():
    values = {("a", "base", "t"): 0.2, ("b", "soft", "t"): 0.4}
    table = averages(metric_frame(scored("retention", "gp_irt", values)), NAMES)
    assert texts(table, 0)[1:4] == ["— (no model with every condition)"] * 2 + ["not run"]
    assert table_text.to_frame(table)["status"].tolist()[:3] == ["undefined", "undefined", "not run"]


def test_other_conditions_and_unknown_models_do_not_enter_means():
    values = {("a", "base", "t"): 0.2, ("a", "ssot", "t"): 0.9, ("z", "base", "t"): 0.9}
    table = averages(metric_frame(scored("retention", "gp_irt", values)), NAMES)
    assert texts(table, 0)[1] == "**0.200**" and "Mean over 1 model," in table.note and "Left out" not in table.note


def test_gsm8k_alone_is_not_called_tiny_benchmarks(config):
    values = {("a", c, split): 0.2 for c in CONDITIONS for split in ("all", "GSM8K (strict)", "GSM8K (flexible)")}
    metrics = metric_frame(scored("retention", "accuracy", values, decimals_n=1319))
    names = {"a": "A"}
    summary = retention_summary(metrics, names, CONDITIONS, config.retention.gsm8k)
    models = model_table(metrics, names, CONDITIONS, config.retention)
    extractions = averages(metrics, names, GSM8K_ACCURACY)
    assert [table.measures[0].title for table in (summary, models, extractions)] == ["GSM8K accuracy"] * 3
    assert texts(summary, 0)[1] == texts(models, 0)[1] == "**0.200** [0.190, 0.210]"
    assert [texts(extractions, line)[0] for line in (0, 1)] == ["GSM8K (strict)", "GSM8K (flexible)"]
    for table in (summary, models, extractions):
        text = table_text.to_markdown(table)
        assert not any(word in text for word in ("IRT", "Tiny", "item parameters")), text
    assert "GSM8K accuracy: share of its problems" in summary.note and "GSM8K accuracy: share" in models.note


def test_breakdown_has_a_column_per_task_in_the_order_they_come():
    values = {("b", "soft", split): 0.1 * place for place, split in enumerate(("all", "z", "a"), start=1)}
    metrics = metric_frame(scored("retention", "gp_irt", values))
    table = split_table("t", metrics, NAMES, CONDITIONS, "T", GP_IRT, "items")
    assert [measure.title for measure in table.measures] == ["z", "a"] and list(table.models) == ["b"]
    assert texts(table, 0)[:3] == ["B", "soft", "**0.200** [0.190, 0.210]"]


def test_answers_have_a_row_for_each_task_and_the_changes_beside_the_values():
    rows = []
    for condition, value in (("base", 40.0), ("soft", 30.0)):
        for task in ("tinyGSM8k", "gsm8k"):
            change = {} if condition == "base" else {"change": -10.0, "change_low": -12.0, "change_high": -8.0}
            rows.append(metric_row("retention", "a", condition, task, "answer_tokens_mean", value, width=1) | change)
    rows += scored("retention", "gp_irt", {("a", "base", "tinyMMLU"): 0.5})
    table = axis_table(ANSWERS, metric_frame(rows), NAMES, CONDITIONS)
    assert list(table.header[:5]) == ["Model", "Condition", "Task", "Tokens", "Change"]
    assert [row[:5] for row in table.rows if row[1] != "hard"] == [
        ["A", condition, task, *texts]
        for condition, texts in (
            ("base", ["40.0 [39.0, 41.0]", "—"]),
            ("soft", ["30.0 [29.0, 31.0]", "-10.0 [-12.0, -8.0]"]),
        )
        for task in ("tinyGSM8k", "gsm8k")
    ]
    assert axis_table(ANSWERS, metric_frame(rows[-1:]), NAMES, CONDITIONS) is None
