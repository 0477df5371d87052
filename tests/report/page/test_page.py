"""The page's text: what stands where, and that it is safe and self-contained."""

import dataclasses
import json
import math
import re

import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.report.evaluations import EvaluationKey, ReportContext, read_evaluations
from pipeline.report.page.page import Section, column_classes, commit_text, coverage_rows, embedded_json, report_page
from pipeline.report.table import Table
from tests.report.conftest import PROVENANCE, context_of, metric_row, structured


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
    context = ReportContext(load_params(two_models), read_evaluations(root), prompts[0])
    return report_page(context, [Section("structured", "Structured", "Numbers.")], [], context.evaluations.provenance)


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


def test_coverage_tells_what_was_run_from_what_failed_is_off_or_was_not(two_models):
    """What was evaluated before an axis was switched off counts as run; baselines have axes of their own."""
    params = dataclasses.replace(load_params(two_models), axes=["structured", "novelty"])
    row = ("valid_rate", 0.5)
    context = context_of(
        params,
        [
            metric_row("mcq", "alpha", "base", "mcq", *row),
            metric_row("structured", "alpha", "batch", "ood", *row),
            metric_row("structured", "beta", "base", "ood", *row),
        ],
    )
    failed = {EvaluationKey("novelty", "alpha", "soft"): "out of memory"}
    context = dataclasses.replace(context, evaluations=dataclasses.replace(context.evaluations, failed=failed))
    rows = {
        names: dict(zip(params.possible_axes, cells, strict=True))
        for *names, cells in coverage_rows(context)
        for names in [tuple(names)]
    }
    off = dict.fromkeys(params.possible_axes, "off")
    alpha = {condition: cells for (model, condition), cells in rows.items() if model == "Alpha_1B"}
    assert alpha["base"] == off | {"structured": "not run", "mcq": "run", "novelty": "not run"}
    assert alpha["soft"] == off | {"structured": "not run", "novelty": "failed: out of memory"}
    nothing = dict.fromkeys(params.possible_axes, "")
    assert alpha["ssot"] == nothing | {"structured": "not run", "open": "off"}
    # Batch is not enabled, but was run.
    assert alpha["batch"] == nothing | {"structured": "run"} and "constrained" not in alpha
    assert rows["Beta 2B", "base"]["structured"] == "run"


def test_commits_are_said_with_what_was_changed():
    git = {"commit": "0123456789abcdef", "modified": True}
    assert commit_text({"git": git}) == "0123456789 + changes" and commit_text(PROVENANCE) == "not recorded"


def test_long_labels_and_texts_are_broken_into_lines():
    rows = [["soft", "a" * 25, "0.1", "b" * 45], ["hard", "short", "0.2", ""]]
    table = Table("t", "T", ("Condition", "Metric", "Value", "Remark"), rows, 2, pd.DataFrame())
    assert column_classes(table) == ["left", "left wrap", "", "text"]


def test_embedded_data_cannot_end_its_element_and_holds_no_nan():
    assert "</script" not in embedded_json({"text": "</script><b>"})
    assert json.loads(embedded_json({"text": "</script>"})) == {"text": "</script>"}
    with pytest.raises(ValueError):
        embedded_json([math.nan])
