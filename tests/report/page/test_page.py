"""The page's text: what stands where, and that it is safe and self-contained."""

import json
import math
import re

import pandas as pd
import pytest

from pipeline.config.evaluation import AXES
from pipeline.config.params import load_params
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import read_evaluations
from pipeline.report.page.page import Section, column_classes, coverage_rows, embedded_json, report_page, table_sources
from pipeline.report.tables.table import ListTable, Measure, build_table
from tests.report.conftest import CONDITIONS, PROVENANCE, metric_frame, metric_row, structured

ROW = ("ood", "wasserstein_1_normalised", 0.25)


def build(root, params, prompts, sections=()):
    config, evaluations = load_params(params), read_evaluations(root)
    context = ReportContext(config, evaluations, evaluations.metrics, [])
    tests = {axis: context.tests(axis) for axis in ("retention", "paloma")}
    return report_page(config, evaluations, evaluations.metrics, tests, prompts, sections)


def without_scripts(page):
    """The page less its scripts and data."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def embedded(page, name):
    """The data of a script element."""
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory, two_models, prompts):
    root = tmp_path_factory.mktemp("evals")
    structured(root, "alpha", "base", 0.4, prompts[0])
    structured(root, "alpha", "soft", 0.1, prompts[0])
    return build(root, two_models, prompts[0], [Section("structured", "Structured", "Numbers.")])


def test_one_file_that_asks_for_nothing(page):
    text = without_scripts(page)
    links = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert {link for link in links if link.startswith("http")} == {"https://arxiv.org/abs/2605.11845"}
    assert "<link" not in text and "@import" not in text and not re.search(r"<script[^>]+src", page)
    assert "default-src 'none'" in text
    assert page.count("<script") == page.count("</script>") == 6


def test_every_anchor_of_the_navigation_exists(page):
    text = without_scripts(page)
    for anchor in re.findall(r'<a href="#([^"]*)"', text):
        assert f'id="{anchor}"' in text, anchor


def test_explorer_data_and_coverage(page, prompts):
    data = embedded(page, "explorer-data")
    assert set(data["prompts"]) == {prompt.prompt_id for prompt in prompts[0]}
    assert set(data["results"]["alpha"]) == {"base", "soft"}
    text = without_scripts(page)
    coverage = text[text.index('id="coverage"') : text.index('id="invalid"')]
    assert coverage.count("<td>run</td>") == 2 and "not run" in coverage


def test_coverage_of_axes_that_are_off():
    """What was evaluated before an axis was switched off counts as run."""
    existing = {("mcq", "alpha", "base"), ("open", "alpha", "base")}
    rows = coverage_rows({"alpha": "A"}, CONDITIONS, existing, ["ssot"], ["open", "novelty"])
    assert rows[0] == ("A", "base", ["off", "run", "run", "not run", *["off"] * (len(AXES) - 4)])
    assert rows[3] == ("A", "ssot", ["off", "not run", *[""] * (len(AXES) - 2)])


def test_coverage_of_baselines():
    existing = {("structured", "alpha", "base"), ("open", "alpha", "ssot"), ("structured", "alpha", "batch")}
    rows = {
        condition: cells
        for _, condition, cells in coverage_rows({"alpha": "A"}, CONDITIONS, existing, ["ssot", "constrained"])
    }
    assert list(rows) == ["base", "soft", "hard", "ssot", "constrained", "batch"]
    others = len(AXES) - 1
    assert rows["base"] == ["run", *["not run"] * others]
    assert rows["ssot"] == ["not run", "run", *[""] * (others - 1)]
    assert rows["constrained"] == ["not run", *[""] * others] and rows["batch"] == ["run", *[""] * others]


def test_sources_name_files_and_commits():
    path = "structured/alpha/{}/provenance.json"
    rows = [
        metric_row("structured", "alpha", "base", *ROW, n=5),
        metric_row("structured", "alpha", "soft", *ROW, n=1000),
    ]
    measures = [Measure("wasserstein_1_normalised", "W1", 3, True, split="ood")]
    table = build_table("t", "T", metric_frame(rows), {"alpha": "A"}, measures, ("base", "soft", "hard"))
    git = {"commit": "0123456789abcdef", "modified": True}
    provenance = {path.format("base"): PROVENANCE, path.format("soft"): {**PROVENANCE, "git": git}}
    assert table_sources(table, provenance, "structured") == [
        (path.format("base"), "not recorded"),
        (path.format("soft"), "0123456789 + changes"),
    ]


def test_long_labels_and_texts_are_broken_into_lines():
    rows = [["soft", "a" * 25, "0.1", "b" * 45], ["hard", "short", "0.2", ""]]
    table = ListTable("t", "T", ("Condition", "Metric", "Value", "Remark"), rows, 2, pd.DataFrame())
    assert column_classes(table) == ["left", "left wrap", "", "text"]


def test_embedded_data_cannot_end_its_element_and_holds_no_nan():
    assert "</script" not in embedded_json({"text": "</script><b>"})
    assert json.loads(embedded_json({"text": "</script>"})) == {"text": "</script>"}
    with pytest.raises(ValueError):
        embedded_json([math.nan])
