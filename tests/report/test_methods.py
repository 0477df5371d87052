"""A report follows the configured methods: which there are, in which order, and how they look."""

import json
import re

import pandas as pd
import pytest

from pipeline.core.statistics.condition_tests import method_pairs
from pipeline.report.tables.table_text import to_frame
from pipeline.report.write import write_report
from tests.report.conftest import (
    anchors,
    by_prompt,
    figures_drawn,
    mcq,
    novelty,
    open_ended,
    paloma,
    retention,
    structured,
    with_methods,
)

METHODS = ("hard", "anchored", "soft", "merged")
CONDITIONS = ("base", *METHODS)


def evaluate(root, conditions, prompts):
    """Everything that is evaluated of one model, under the conditions."""
    for place, condition in enumerate(conditions):
        structured(root / "evals", "alpha", condition, 0.4 / (1 + place), prompts)
        by_prompt(root / "evals", "alpha", condition, 0.4 / (1 + place), prompts)
        open_ended(root / "evals", "alpha", condition, 3.0 + place)
        mcq(root / "evals", "alpha", condition, 90 - place)
        novelty(root / "evals", "alpha", condition, 4.0 + place)
        retention(root / "evals", "alpha", condition, 0.3 + 0.05 * place, "kept")
        paloma(root / "evals", "alpha", condition, 1.3 - 0.1 * place)
        anchors(root / "evals", "alpha", condition, 0.1 * place)
        log = root / "adapters" / "alpha" / condition / "train_log.jsonl"
        if condition not in ("base", "merged"):
            log.parent.mkdir(parents=True)
            log.write_text('{"step": 1, "loss": 2.0}\n')


def report(root, params, prompts):
    """The report, and its page's text and embedded data."""
    arguments = ([root / "evals"], [prompts[1]], root / "reports", [root / "adapters"])
    # Further methods in each figure have tests of their own.
    with figures_drawn("frontier", "figure8"):
        found = write_report(params, *arguments, sweeps=root / "sweeps")
    page = (root / "reports" / "index.html").read_text(encoding="utf-8")
    look = json.loads(re.search(r'id="look">(.*?)</script>', page, re.DOTALL)[1])
    return found, re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL), look


@pytest.fixture(scope="module")
def four(tmp_path_factory, two_models, prompts):
    """A report of hard, anchored, soft and merged, in this order."""
    root = tmp_path_factory.mktemp("four")
    evaluate(root, CONDITIONS, prompts[0])
    return report(root, with_methods(two_models, root / "params.yaml", *METHODS), prompts)


def conditions_of(table):
    frame = to_frame(table)
    return list(dict.fromkeys(frame.loc[frame["model"] == "alpha", "condition"]))


def test_main_tables_have_every_method_in_the_configured_order(four):
    tables = {table.name: table for table in four[0].tables}
    for name in ("table1", "table2", "table6", "table7", "table10_stand_in", "table20", "table21_models", "table22"):
        assert conditions_of(tables[name]) == list(CONDITIONS), name
    for name in ("retention_differences", "retention_tests", "paloma_tests", "anchors", "anchors_by_kind"):
        assert conditions_of(tables[name]) == list(METHODS), name
    # Tables of baselines have them behind the methods.
    assert tables["equal_token_budget_ood"].conditions == CONDITIONS
    assert list(tables["open_stated"].header) == ["Number", "Of", *CONDITIONS]
    paper = next(row for row in tables["open_stated"].rows if row[1] == "Qwen3-14B (paper)")
    assert paper[2:] == ["80%", "about 40%", "—", "about 40%", "—"]


def test_further_methods_are_tested_against_base_and_soft(four):
    tables = {table.name: table.frame for table in four[0].tables if hasattr(table, "frame")}
    assert set(method_pairs(CONDITIONS)) > {("anchored", "soft"), ("merged", "soft"), ("soft", "hard")}
    for name in ("structured_tests", "transfer_tests"):
        for _, members in tables[name].groupby(["split", "metric"], sort=False):
            pairs = list(zip(members["condition"], members["against"], strict=True))
            assert pairs == method_pairs(CONDITIONS), name
        # One rule: adjusted over the splits of one metric and pair alone.
        assert (tables[name]["p_adjusted"] >= tables[name]["p"]).all()


def test_the_frontier_has_every_method_and_the_second_answer_names_one(four):
    found, text, _ = four
    tables = {table.name: table for table in found.tables}
    assert conditions_of(tables["frontier"]) == list(CONDITIONS)
    frame = to_frame(tables["frontier"])
    assert (frame.loc[frame["model"] == "alpha", "provenance"].str.endswith("provenance.json")).all()
    standings = frame[frame["model"] == "alpha"].drop_duplicates("condition").set_index("condition")["frontier"]
    (chosen,) = standings[standings.str.startswith("to choose")].index
    # Hard and anchored lie above merged, the best, by more than the margin; soft does not, and diverges less.
    assert chosen == "soft" and standings["base"] == ""
    questions = re.findall(r"<section class=\"answer\"><h2>(.*?)</h2><p class=\"short\">(.*?)</p>", text)
    assert questions[1][0] == "What did it cost?" and f"To choose: {chosen}" in questions[1][1]
    costs = tables["frontier_costs"].frame
    assert set(costs["reference"]) == {"base, soft"} and set(costs["condition"]) == {"hard", "anchored", "merged"}
    assert (found.directory / "figures" / "frontier.png").exists()


def test_one_method_that_is_not_soft(tmp_path, two_models, prompts):
    """Evaluations of methods that are no longer configured are left out."""
    evaluate(tmp_path, ("base", "anchored", "soft"), prompts[0])
    structured(tmp_path / "evals", "alpha", "ssot", 0.3, prompts[0])
    found, text, look = report(tmp_path, with_methods(two_models, tmp_path / "params.yaml", "anchored"), prompts)
    tables = {table.name: table for table in found.tables}
    assert conditions_of(tables["table6"]) == ["base", "anchored"] and look["first"] == ["base", "anchored"]
    assert conditions_of(tables["table8"]) == ["base", "ssot"] and "beside base:" in tables["table8"].caption
    pairs = tables["structured_tests"].frame[["condition", "against"]].drop_duplicates()
    assert pairs.to_numpy().tolist() == [["anchored", "base"]]
    assert not {"table4", "table11_stand_in"} & {path.stem for path in (found.directory / "tables").glob("*.csv")}
    assert list(tables["methods"].rows[0][:2]) == ["anchored", "soft"]
    assert "Does it carry over to language?" in text and "anchored is fine-tuned" in text
    losses = pd.read_csv(found.directory / "plots" / "training_loss" / "alpha.csv")
    assert list(losses.columns) == ["step", "anchored"]
    assert (found.directory / "figures" / "figure8.png").exists()
