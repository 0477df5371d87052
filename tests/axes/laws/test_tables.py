"""Table, tests and figure of laws of one's own, from answers of samplers that are known to be good and bad."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from pipeline.axes.laws.figures import PANELS, law_panels, shown_laws
from pipeline.axes.laws.law_metrics import EXACT, evaluate_law, summaries
from pipeline.axes.laws.tables import TITLES, law_tests_table, laws_table
from pipeline.axes.structured.wasserstein import mid_quantiles
from pipeline.config import retention
from pipeline.core.laws.finite_law import categorical_law, numeric_law
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.summarise import summarise
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import write_fabricated

NAMES = {"m": "Model_M"}
TESTS = retention.TestsConfig(0.05, 0.01, 0.02, 0.05, 0.02)
CITY = categorical_law({"New York": 0.6, "New": 0.3, "York": 0.1})
DICE = numeric_law(np.arange(1, 7), np.ones(6), 0)
SPLIT = "held_out_template"


@pytest.fixture
def evaluations(tmp_path):
    rng = np.random.default_rng(0)
    prompts = [
        Prompt(f"{law}-{n}", SPLIT, law, "", {}, f"{law} {n}", CITY if law == "city" else DICE)
        for law in ("city", "dice")
        for n in range(7)
    ]
    for condition, strings in (("base", ["New York"]), ("soft", list(CITY.strings))):
        found = []
        for prompt in prompts:
            if prompt.law is CITY:
                weights = CITY.class_probabilities if condition == "soft" else [1.0]
                answers = rng.choice(strings, p=weights, size=200).tolist()
            else:
                answers = [str(value) for value in rng.integers(1 if condition == "soft" else 6, 7, size=200)]
            found.append(evaluate_law(prompt, [*answers, "?"], seed=0, names=("m", condition), floor_replicates=100))
        table = pd.DataFrame([each.row for each in found]).assign(**dict.fromkeys(EXACT, 0.25))
        arrays = pd.DataFrame([each.arrays for each in found])
        labels = {"axis": "laws", "model": "m", "condition": condition}
        rows = [
            row
            for part, numbers, by_law in summaries(table.join(arrays).assign(condition=condition))
            for row in summarise(part, numbers, split=SPLIT, seed=0, names=("m",), replicates=100, by_family=by_law)
        ]
        classes = [
            (prompt.prompt_id, name, target, each.counts[name])
            for prompt, each in zip(prompts, found, strict=True)
            if each.counts
            for name, target in zip(CITY.class_names, CITY.class_probabilities, strict=True)
        ]
        samples = [
            (p.prompt_id, e.samples, mid_quantiles(DICE, len(e.samples)))
            for p, e in zip(prompts, found, strict=True)
            if not e.counts
        ]
        write_fabricated(
            tmp_path,
            [{**labels, **row} for row in rows],
            per_prompt=table,
            classes=pd.DataFrame(classes, columns=["prompt_id", "class", "target", "count"]),
            samples=pd.DataFrame(samples, columns=["prompt_id", "values", "reference"]),
        )
    return read_evaluations(tmp_path)


def test_each_law_has_its_own_distance_and_floor(evaluations):
    table = laws_table(evaluations.metrics, NAMES, ("base", "soft", "hard"))
    assert all(len(row) == len(TITLES) for row in table.rows)
    frame = table.frame.set_index(["law", "condition"])
    assert list(frame.index) == [("city", "base"), ("city", "soft"), ("dice", "base"), ("dice", "soft")]
    assert list(frame["metric"]) == ["law_total_variation"] * 2 + ["law_wasserstein_1_normalised"] * 2
    assert frame.loc[("city", "base"), "value"] == pytest.approx(0.4)
    for law in ("city", "dice"):
        assert frame.loc[(law, "soft"), "value"] < 2 * frame.loc[(law, "soft"), "floor"]
        assert frame.loc[(law, "base"), "ci_low"] > frame.loc[(law, "soft"), "ci_high"]
    assert list(frame["valid_rate"]) == pytest.approx([200 / 201] * 4) and (frame["exact"] == 0.25).all()
    assert table.rows[0][-1] == "100% of 7" and table.rows[1][-1] == "0% of 7" and table.rows[2][-1] == "—"
    assert laws_table(evaluations.metrics.iloc[:0], NAMES, ("base",)) is None


def test_conditions_are_compared_request_by_request(evaluations):
    table = law_tests_table(evaluations, NAMES, ("base", "soft", "hard"), 0, TESTS, 200)
    frame = table.frame.set_index(["metric", "condition", "against"])
    assert list(frame.index) == [
        ("law_total_variation", "soft", "base"),
        ("law_wasserstein_1_normalised", "soft", "base"),
        ("law_exact_total_variation", "soft", "base"),
    ]
    # The same exact figures were written for both.
    assert frame["verdict"].iloc[2] == "no relevant difference" and frame["prompts"].iloc[2] == 14
    frame = frame.iloc[:2]
    assert (frame["verdict"] == "better").all() and (frame["prompts"] == 7).all() and (frame["p"] == 2 / 2**7).all()
    assert table.rows[0][0] == "held-out templates"
    assert law_tests_table(evaluations, NAMES, ("base",), 0, TESTS, 200) is None


def test_bars_are_the_shares_of_each_condition(evaluations):
    columns = {
        "per_prompt": ("prompt_id", "split", "family", "fields", "numeric"),
        "classes": ("prompt_id", "class", "target", "count"),
        "samples": ("prompt_id", "values", "reference"),
    }
    found = {name: evaluations.stacked("laws", name, own, ["m"], ("base", "soft")) for name, own in columns.items()}
    figure = law_panels(found["per_prompt"], found["classes"], found["samples"], ("base", "soft"))
    city, dice = figure.axes[:2]
    heights = [[bar.get_height() for bar in container] for container in city.containers]
    assert heights[0] == pytest.approx([0.6, 0.3, 0.1]) and heights[1] == [1, 0, 0]
    assert heights[2] == pytest.approx([0.6, 0.3, 0.1], abs=0.05)
    assert [line.get_label() for line in dice.get_lines()] == ["law", "base", "soft"]
    assert set(dice.get_lines()[1].get_xdata()) == {6}
    plt.close(figure)


def test_panels_take_turns_and_show_held_out_values_first():
    rows = [("held_out_template", "wide", f"x={n}") for n in range(20)]
    rows += [("held_out_field", "wide", "x=30"), ("seen_template", "one", ""), ("seen_template", "wide", "x=1")]
    shown = shown_laws(pd.DataFrame(rows, columns=["split", "family", "fields"]))
    assert len(shown) == PANELS and shown[0] == ("wide", "x=30", "held_out_field")
    assert shown[-1] == ("one", "", "seen_template")
