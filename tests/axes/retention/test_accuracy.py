"""Retention metrics from answers written by hand: means over tasks, pairing, adjustment and verdicts."""

import numpy as np
import pytest

from pipeline.axes.retention.accuracy import all_results, item_table, mean_columns, metric_rows, paired_test_table
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
TASKS = [column for column in COLUMNS if column != "tinyGSM8k (strict)"]


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


def rows_of(results, gsm8k="once", base="base") -> dict:
    rows = metric_rows(results["own"], results[base] if base else None, gsm8k)
    return {(row["split"], row["metric"]): row for row in rows}


def paired_tests(results, margin):
    names = {"seed": 0, "names": ("m", "soft")}
    return paired_test_table(results["own"], results["base"], margin=margin, significance=0.05, **names)


def ends(row, name="ci"):
    return row[f"{name}_low"], row[f"{name}_high"]


def test_columns_of_the_mean():
    assert mean_columns(list(COLUMNS)) == TASKS == mean_columns(list(ALL_COLUMNS))
    assert mean_columns(list(COLUMNS), "twice") == list(COLUMNS) == mean_columns(list(ALL_COLUMNS), "twice")
    assert mean_columns(["tinyGSM8k (strict)"]) == ["tinyGSM8k (strict)"]
    for gsm8k in ("once", "twice"):
        assert mean_columns(list(WHOLE_COLUMNS), gsm8k) == ["GSM8K (flexible)"]


@pytest.mark.parametrize(("right", "expected"), [(5, "cannot tell"), (6, "kept")])
def test_what_base_cannot_do_is_not_kept(right, expected):
    answers = {"GSM8K (flexible)": np.repeat([1.0, 0.0], [right, 100 - right])}
    table = paired_tests(all_results({"own": answers, "base": answers}, {}, seed=0, model="m", replicates=9), 0.05)
    assert (table["p_equivalence_adjusted"] < 0.05).all() and set(table["verdict"]) == {expected}


def test_rows_by_column(results):
    rows, values = rows_of(results), own_and_base()
    for column, (task, _) in COLUMNS.items():
        own, base = values["own"][column], values["base"][column]
        expected, _ = estimate_performance(SCENARIOS[task.removeprefix("tiny").lower()], own)
        score, accuracy = rows[column, "gp_irt"], rows[column, "accuracy"]
        assert score["value"] == expected and accuracy["value"] == own.mean()
        assert score["n"] == accuracy["n"] == SIZE
        # Where all resamples agree, the ends are the estimate up to rounding.
        assert score["ci_low"] * (1 - 1e-12) <= score["value"] <= score["ci_high"] * (1 + 1e-12)
        if column != "tinyTruthfulQA":
            assert ends(accuracy) == wilson_interval(own.sum(), SIZE)
            assert ends(accuracy, "change") == tango_interval(base, own)
    # No item has changed, which the bootstrap takes for certainty.
    assert ends(rows["tinyMMLU", "gp_irt_difference"]) == (0, 0)
    low, high = ends(rows["tinyMMLU", "accuracy_difference"])
    assert low == pytest.approx(-high) and high > 0.04


def test_means_over_tasks_and_the_papers(results):
    own = {column: result.estimates["gp_irt"] for column, result in results["own"].items()}
    once, twice = (np.mean([own[column] for column in columns]) for columns in (TASKS, COLUMNS))
    rows, doubled = rows_of(results), rows_of(results, "twice")
    assert rows["all", "gp_irt"]["value"] == pytest.approx(once)
    assert rows["all", "gp_irt_paper_mean"]["value"] == pytest.approx(twice)
    assert rows["all", "gp_irt"]["n"] == rows["all", "gp_irt_difference"]["n"] == 5 * SIZE
    assert doubled["all", "gp_irt"]["value"] == doubled["all", "gp_irt_paper_mean"]["value"] == pytest.approx(twice)
    # Independent tasks: the mean's error is the root of the summed squares over 5, up to the bootstrap's own noise.
    error = np.sqrt(sum(results["own"][column].draws["gp_irt"].var() for column in TASKS)) / 5
    low, high = ends(rows["all", "gp_irt"])
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.2)


def test_differences_are_paired(results):
    rows = rows_of(results)
    lost = rows["tinyHellaswag", "accuracy_difference"]
    assert lost["value"] == -0.5 and lost["ci_high"] < -0.3
    for name in ("gp_irt", "accuracy"):
        means = [rows[column, f"{name}_difference"]["value"] for column in TASKS]
        assert rows["all", f"{name}_difference"]["value"] == pytest.approx(np.mean(means))
        row, change = rows["all", f"{name}_difference"], rows["all", name]
        assert (row["value"], *ends(row)) == (change["change"], *ends(change, "change"))
    assert not [key for key in rows_of(results, base=None) if key[1].endswith("_difference")]


def test_tests_by_column(results):
    table, values = paired_tests(results, 0.25), own_and_base()
    assert list(table.columns) == list(TEST_COLUMNS)
    rows = table.set_index("split")
    for column in COLUMNS:
        own, base, row = values["own"][column], values["base"][column], rows.loc[column]
        assert row["difference"] == pytest.approx(own.mean() - base.mean())
        if column == "tinyTruthfulQA":
            assert row["p_equivalence"] == tost(own - base, 0.25)
        else:
            assert row["p_difference"] == mcnemar_exact(base, own) and ends(row) == tango_interval(base, own)
            assert row["p_equivalence"] == tost_proportions(base, own, 0.25)
    # Holm over five tasks; the strict column in the flexible one's place.
    for name in ("p_difference", "p_equivalence"):
        assert rows.loc[TASKS, f"{name}_adjusted"].tolist() == holm(rows.loc[TASKS, name].to_numpy()).tolist()
        with_strict = [*TASKS[:-1], "tinyGSM8k (strict)"]
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
    rows, values = paired_tests(results, 0.15).set_index("split"), own_and_base()
    differences = [values["own"][column] - values["base"][column] for column in TASKS]
    together = rows.loc["all"]
    assert together["difference"] == pytest.approx(np.mean([each.mean() for each in differences]))
    found = stratified_mean(differences, [column != "tinyTruthfulQA" for column in TASKS])
    assert ends(together) == found.interval == ends(rows_of(results)["all", "accuracy_difference"])
    assert together["p_equivalence"] == together["p_equivalence_adjusted"] == found.p_equivalence(0.15)
    assert together["p_difference"] == together["p_difference_adjusted"]
    # Five times the items find differences less than half as large as those of a task with as many changes.
    assert together["detectable"] < 0.5 * rows.loc["tinyHellaswag", "detectable"]
    twice = rows_of(results, "twice")["all", "accuracy_difference"]
    assert twice["ci_low"] < twice["value"] < twice["ci_high"] != found.interval[1]


def test_small_margins_leave_open_what_sixty_items_cannot_show(results):
    verdicts = paired_tests(results, 0.03).set_index("split")["verdict"]
    assert verdicts["tinyMMLU"] == "cannot tell" and verdicts["tinyHellaswag"] == "lost"


def test_items(results):
    table = item_table(results["own"], results["base"])
    rows = table[table["split"] == "tinyHellaswag"]
    assert len(table) == 6 * SIZE and rows["item"].tolist() == list(range(SIZE)) and rows["base_value"].mean() == 0.5
    assert item_table(results["base"], None)["base_value"].isna().all()


def test_resamples_do_not_depend_on_other_columns(results):
    alone = {"own": {"tinyMMLU": own_and_base()["own"]["tinyMMLU"]}}
    found = all_results(alone, SCENARIOS, seed=0, model="m", replicates=300)["own"]["tinyMMLU"]
    for name, draws in found.draws.items():
        assert draws.tolist() == results["own"]["tinyMMLU"].draws[name].tolist()
