"""Retention metrics from answers written by hand: means over tasks, pairing, adjustment and verdicts."""

import math

import numpy as np
import pytest

from pipeline.axes.retention.accuracy import (
    all_results,
    item_table,
    mean_columns,
    metric_rows,
    paired_test_table,
)
from pipeline.core.retention.irt import IrtScenario, estimate_performance
from pipeline.core.retention.tasks import ALL_COLUMNS, COLUMNS, WHOLE_COLUMNS
from pipeline.core.statistics.intervals import wilson_interval
from pipeline.core.statistics.paired_tests import (
    TEST_COLUMNS,
    holm,
    mcnemar_exact,
    stratified_mean,
    tango_interval,
    tost,
    tost_proportions,
)

SIZE = 60
ESTIMATES = ("gp_irt", "p_irt", "irt", "accuracy")


def scenario(seed: int) -> IrtScenario:
    rng = np.random.default_rng(seed)
    return IrtScenario(
        discriminations=rng.lognormal(0, 0.3, size=(1, 300)),
        offsets=rng.normal(0, 1, 300),
        seen=rng.choice(300, SIZE, replace=False),
        seen_weights=rng.dirichlet(np.full(SIZE, 5.0)),
        balance_weights=np.ones(300),
        mixing_weight=0.5,
    )


SCENARIOS = {name: scenario(i) for i, name in enumerate(("mmlu", "hellaswag", "truthfulqa", "winogrande", "gsm8k"))}


def own_and_base() -> dict:
    """MMLU as it was; HellaSwag loses 30 of 60; Winogrande gains 20 of 60; GSM8K (flexible) loses 4."""
    base = {column: (np.arange(SIZE) % 2).astype(float) for column in COLUMNS}
    own = {column: values.copy() for column, values in base.items()}
    base["tinyTruthfulQA"] = np.random.default_rng(0).random(SIZE)
    own["tinyTruthfulQA"] = np.clip(base["tinyTruthfulQA"] + np.random.default_rng(1).normal(0, 0.05, SIZE), 0, 1)
    own["tinyHellaswag"][:] = 0
    own["tinyWinogrande"][::3] = 1
    own["tinyGSM8k (flexible)"][1:9:2] = 0
    own["tinyGSM8k (strict)"][1:41:2] = 0
    return {"own": own, "base": base}


@pytest.fixture(scope="module")
def results() -> dict:
    return all_results(own_and_base(), SCENARIOS, seed=0, model="m", replicates=300)


def by_name(rows: list[dict]) -> dict:
    return {(row["split"], row["metric"]): row for row in rows}


def test_columns_of_the_mean():
    assert mean_columns(list(COLUMNS)) == [
        "tinyMMLU",
        "tinyHellaswag",
        "tinyTruthfulQA",
        "tinyWinogrande",
        "tinyGSM8k (flexible)",
    ]
    assert mean_columns(list(COLUMNS), "twice") == list(COLUMNS)
    assert mean_columns(["tinyGSM8k (strict)"]) == ["tinyGSM8k (strict)"]
    assert mean_columns(list(ALL_COLUMNS)) == mean_columns(list(COLUMNS))
    assert mean_columns(list(ALL_COLUMNS), "twice") == list(COLUMNS)
    for gsm8k in ("once", "twice"):
        assert mean_columns(list(WHOLE_COLUMNS), gsm8k) == ["GSM8K (flexible)"]


@pytest.mark.parametrize(("right", "expected"), [(5, "cannot tell"), (6, "kept")])
def test_what_base_cannot_do_is_not_kept(right, expected):
    values = np.zeros(100)
    values[:right] = 1
    answers = {"GSM8K (flexible)": values}
    both = all_results({"own": answers, "base": answers}, {}, seed=0, model="m", replicates=9)
    table = paired_test_table(both["own"], both["base"], margin=0.05, significance=0.05, seed=0, names=("m", "soft"))
    assert (table["p_equivalence_adjusted"] < 0.05).all() and set(table["verdict"]) == {expected}


def test_rows_by_column(results):
    rows = by_name(metric_rows(results["own"], results["base"], "once"))
    for column, (task, _) in COLUMNS.items():
        values = own_and_base()["own"][column]
        expected, _ = estimate_performance(SCENARIOS[task.removeprefix("tiny").lower()], values)
        assert rows[column, "gp_irt"]["value"] == expected.gp_irt
        assert rows[column, "p_irt"]["value"] == expected.p_irt and rows[column, "irt"]["value"] == expected.irt
        assert rows[column, "accuracy"]["value"] == values.mean()
        assert all(rows[column, name]["n"] == SIZE for name in ESTIMATES)
        low, high = (rows[column, "gp_irt"][end] for end in ("ci_low", "ci_high"))
        # Where all resamples agree, the ends are the estimate up to rounding.
        assert low * (1 - 1e-12) <= expected.gp_irt <= high * (1 + 1e-12)
        low, high = rows[column, "accuracy"]["ci_low"], rows[column, "accuracy"]["ci_high"]
        if column != "tinyTruthfulQA":
            assert (low, high) == wilson_interval(values.sum(), SIZE)
    # Six times fewer items than 1,000 with an error of 1.6%: the sample's error is what counts here.
    assert rows["tinyMMLU", "gp_irt_published_error"]["value"] == 0.016
    assert 0.02 < rows["tinyMMLU", "gp_irt_standard_error"]["value"] < 0.09


def test_means_over_tasks_and_the_papers(results):
    own = {column: result.estimates["gp_irt"] for column, result in results["own"].items()}
    others = [own[c] for c in COLUMNS if not c.startswith("tinyGSM8k")]
    once = (sum(others) + own["tinyGSM8k (flexible)"]) / 5
    twice = (sum(others) + own["tinyGSM8k (flexible)"] + own["tinyGSM8k (strict)"]) / 6
    rows = by_name(metric_rows(results["own"], results["base"], "once"))
    assert rows["all", "gp_irt"]["value"] == pytest.approx(once)
    assert rows["all", "gp_irt_paper_mean"]["value"] == pytest.approx(twice)
    assert rows["all", "gp_irt"]["n"] == rows["all", "gp_irt_difference"]["n"] == 5 * SIZE
    doubled = by_name(metric_rows(results["own"], results["base"], "twice"))
    assert doubled["all", "gp_irt"]["value"] == doubled["all", "gp_irt_paper_mean"]["value"] == pytest.approx(twice)
    # Independent tasks: the mean's error is the root of the summed squares over 5, up to the bootstrap's own noise.
    errors = [rows[c, "gp_irt_standard_error"]["value"] for c in mean_columns(list(COLUMNS))]
    expected = math.sqrt(sum(e**2 for e in errors)) / 5
    assert rows["all", "gp_irt_standard_error"]["value"] == pytest.approx(expected, rel=0.2)


def test_differences_are_paired(results):
    rows = by_name(metric_rows(results["own"], results["base"], "once"))
    same = rows["tinyMMLU", "gp_irt_difference"]
    assert (same["value"], same["ci_low"], same["ci_high"]) == (0, 0, 0)
    lost = rows["tinyHellaswag", "accuracy_difference"]
    assert lost["value"] == -0.5 and lost["ci_high"] < -0.3
    for name in ("gp_irt", "accuracy"):
        means = [rows[c, f"{name}_difference"]["value"] for c in mean_columns(list(COLUMNS))]
        assert rows["all", f"{name}_difference"]["value"] == pytest.approx(np.mean(means))
    alone = by_name(metric_rows(results["base"], None, "once"))
    assert not [key for key in alone if key[1].endswith("_difference")]


def test_tests_by_column(results):
    table = paired_test_table(
        results["own"], results["base"], margin=0.25, significance=0.05, seed=0, names=("m", "soft")
    )
    assert list(table.columns) == list(TEST_COLUMNS)
    rows, values = table.set_index("split"), own_and_base()
    for column in COLUMNS:
        own, base = values["own"][column], values["base"][column]
        assert rows.loc[column, "difference"] == pytest.approx(own.mean() - base.mean())
        if column == "tinyTruthfulQA":
            assert rows.loc[column, "p_equivalence"] == tost(own - base, 0.25)
        else:
            assert rows.loc[column, "p_difference"] == mcnemar_exact(base, own)
            assert rows.loc[column, "p_equivalence"] == tost_proportions(base, own, 0.25)
    # Holm over five tasks; the strict column in the flexible one's place.
    family = mean_columns(list(COLUMNS))
    for name in ("p_difference", "p_equivalence"):
        assert rows.loc[family, f"{name}_adjusted"].tolist() == holm(rows.loc[family, name].to_numpy()).tolist()
        with_strict = [*family[:-1], "tinyGSM8k (strict)"]
        adjusted = holm(rows.loc[with_strict, name].to_numpy())[-1]
        assert rows.loc["tinyGSM8k (strict)", f"{name}_adjusted"] == adjusted
    assert rows["verdict"].to_dict() == {
        "tinyMMLU": "kept",
        "tinyHellaswag": "lost",
        "tinyTruthfulQA": "kept",
        "tinyWinogrande": "gained",
        "tinyGSM8k (strict)": "lost",
        "tinyGSM8k (flexible)": "kept",
        "all": "kept",
    }


def test_all_tasks_together_are_one_question_that_is_not_adjusted(results):
    rows = paired_test_table(
        results["own"], results["base"], margin=0.15, significance=0.05, seed=0, names=("m", "soft")
    ).set_index("split")
    members, values = mean_columns(list(COLUMNS)), own_and_base()
    differences = [values["own"][column] - values["base"][column] for column in members]
    together = rows.loc["all"]
    assert together["difference"] == pytest.approx(np.mean([each.mean() for each in differences]))
    found = stratified_mean(differences, [column != "tinyTruthfulQA" for column in members])
    assert (together["ci_low"], together["ci_high"]) == found.interval
    assert together["p_equivalence"] == together["p_equivalence_adjusted"] == found.p_equivalence(0.15)
    assert together["p_difference"] == together["p_difference_adjusted"]
    # Five times the items find differences less than half as large as those of a task with as many changes.
    assert together["detectable"] < 0.5 * rows.loc["tinyHellaswag", "detectable"]
    metrics = by_name(metric_rows(results["own"], results["base"], "once"))["all", "accuracy_difference"]
    assert (metrics["ci_low"], metrics["ci_high"]) == found.interval
    twice = by_name(metric_rows(results["own"], results["base"], "twice"))["all", "accuracy_difference"]
    assert twice["ci_low"] < twice["value"] < twice["ci_high"] != found.interval[1]


def test_rates_have_score_intervals(results):
    rows = by_name(metric_rows(results["own"], results["base"], "once"))
    values = own_and_base()
    lost, same = rows["tinyHellaswag", "accuracy_difference"], rows["tinyMMLU", "accuracy_difference"]
    expected = tango_interval(values["base"]["tinyHellaswag"], values["own"]["tinyHellaswag"])
    assert (lost["ci_low"], lost["ci_high"]) == expected
    # No item has changed, which the bootstrap took for certainty.
    assert same["ci_low"] == pytest.approx(-same["ci_high"]) and same["ci_high"] > 0.04
    none_right = rows["tinyHellaswag", "accuracy"]
    assert (none_right["ci_low"], none_right["ci_high"]) == wilson_interval(0, SIZE)


def test_small_margins_leave_open_what_sixty_items_cannot_show(results):
    table = paired_test_table(
        results["own"], results["base"], margin=0.03, significance=0.05, seed=0, names=("m", "soft")
    ).set_index("split")
    assert table.loc["tinyMMLU", "verdict"] == "cannot tell" and table.loc["tinyHellaswag", "verdict"] == "lost"


def test_the_base_itself_has_no_tests(results):
    table = paired_test_table(results["base"], None, margin=0.05, significance=0.05, seed=0, names=("m", "base"))
    assert len(table) == 0 and list(table.columns) == list(TEST_COLUMNS)
    assert item_table(results["base"], None)["base_value"].isna().all()


def test_items_and_their_predictions(results):
    table = item_table(results["own"], results["base"])
    assert len(table) == 6 * SIZE
    rows = table[table["split"] == "tinyHellaswag"]
    assert rows["item"].tolist() == list(range(SIZE)) and rows["base_value"].mean() == 0.5
    # The maximum likelihood ability fits a-weighted means of answers: predictions of all-wrong answers vanish.
    assert rows["predicted"].max() < 1e-3


def test_resamples_do_not_depend_on_other_columns():
    values = own_and_base()
    alone = all_results({"own": {"tinyMMLU": values["own"]["tinyMMLU"]}}, SCENARIOS, seed=0, model="m", replicates=50)
    together = all_results(values, SCENARIOS, seed=0, model="m", replicates=50)
    for name in ESTIMATES:
        expected = together["own"]["tinyMMLU"].draws[name]
        assert alone["own"]["tinyMMLU"].draws[name].tolist() == expected.tolist()
