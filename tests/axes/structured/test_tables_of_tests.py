"""The table of tests between conditions, from files."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.structured import tables
from pipeline.axes.structured.tables import margins_of, per_prompt_metrics, structured_tests_table
from pipeline.config import retention
from pipeline.report import table_text
from pipeline.report.evaluations import read_evaluations
from tests.report.conftest import CONDITIONS, metric_row, write_fabricated

NAMES = {"m": "Model_M"}
TESTS = retention.TestsConfig(0.05, 0.01, 0.02, 0.05, 0.02)


@pytest.fixture
def evaluations(tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.uniform(0, 0.02, 18)
    for condition, level, floor in (("base", 0.4, 0.01), ("soft", 0.1, 0.01), ("ssot", 0.2, 0.03)):
        columns = {
            "prompt_id": [f"p{number}" for number in range(18)],
            "split": "ood",
            "family": [f"f{number % 6}" for number in range(18)],
            "pit_wasserstein_1_all_answers": level + rng.permutation(noise),
        }
        if condition != "ssot":
            columns["logit_kl_nats"] = 5 * level + rng.permutation(noise)
        names = ("structured", "m", condition, "ood")
        rows = [metric_row(*names, "pit_wasserstein_1_all_answers", level, floor=floor)]
        write_fabricated(tmp_path, rows, per_prompt=pd.DataFrame(columns))
    return read_evaluations(tmp_path)


def test_pairs_that_exist_are_tested_and_sizes_are_reckoned_with(evaluations):
    table = structured_tests_table(evaluations, NAMES, CONDITIONS, 0, TESTS, 200)
    frame = table.frame.set_index(["metric", "condition", "against"])
    # No hard; no logit KL of samples alone; and evaluations older than a metric lack it.
    assert list(frame.index) == [
        ("pit_wasserstein_1_all_answers", "soft", "base"),
        ("pit_wasserstein_1_all_answers", "ssot", "base"),
        ("pit_wasserstein_1_all_answers", "ssot", "soft"),
        ("logit_kl_nats", "soft", "base"),
    ]
    assert frame["verdict"].tolist() == ["better", "better", "worse", "better"]
    assert frame["floor_difference"].tolist() == pytest.approx([0, 0.02, 0.02, np.nan], nan_ok=True)
    assert frame["difference"].tolist() == pytest.approx([-0.3, -0.2, 0.1, -1.5], abs=0.03)
    assert (frame["p_adjusted"] >= frame["p"]).all()
    text = table_text.to_markdown(table)
    assert "| OOD | Logit KL | Model\\_M | soft − base | 6 | 18 | -1." in text and "level 0.05" in text


def test_the_table_is_the_same_every_time(evaluations):
    first, second = (structured_tests_table(evaluations, NAMES, CONDITIONS, 0, TESTS, 200).frame for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_no_table_without_a_pair(evaluations):
    assert structured_tests_table(evaluations, {"other": "Other"}, CONDITIONS, 0, TESTS, 200) is None
    assert per_prompt_metrics(evaluations, {"other": "Other"}, CONDITIONS).empty


def test_each_number_has_its_column_and_each_metric_its_margin():
    row = SimpleNamespace(split="ood", metric="logit_kl_nats", model="m", condition="soft", against="base", families=6)
    numbers = {"difference": -0.5, "ci_low": -0.7, "ci_high": -0.3, "p": 0.02, "p_adjusted": 0.04, "margin": 0.1}
    row.__dict__.update(
        prompts=18, verdict="better", undefined=0, p_these_families=0.0001, floor_difference=0.01, **numbers
    )
    assert {title: text(row) for title, text in tables.test_columns(NAMES).items()} == {
        "Split": "OOD",
        "Metric": "Logit KL",
        "Model": "Model_M",
        "Conditions": "soft − base",
        "Families": "6",
        "Prompts": "18",
        "Difference": "-0.5000",
        "95% interval": "[-0.7000, -0.3000]",
        "Verdict": "better",
        "Adjusted p": "0.040",
        "p": "0.020",
        "p, these families": "<0.001",
        "Margin": "0.1",
        "Perfect samplers": "+0.0100",
    }
    margins = margins_of(dataclasses.replace(TESTS, wasserstein_margin=0.03, logit_kl_margin=0.07))
    assert margins.pop("logit_kl_nats") == 0.07 and set(margins.values()) == {0.03}
