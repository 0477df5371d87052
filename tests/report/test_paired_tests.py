"""Paired tests between conditions of structured sampling and of tasks."""

import math

import numpy as np
import pandas as pd
import pytest

from pipeline.report.evaluations import ReportContext, read_evaluations
from pipeline.report.paired_tests import paired_tests, paired_tests_table
from tests.report.conftest import metric_row, params_of, write_fabricated

PARAMS = params_of(["a"])
PIT = "pit_wasserstein_1_all_answers"


@pytest.fixture
def tested(tmp_path):
    """18 prompts of six families on one split; base scores .4, soft .1 and SSOT, of fewer answers, .2."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(0, 0.02, 18)
    for condition, level, floor in (("base", 0.4, 0.01), ("soft", 0.1, 0.01), ("ssot", 0.2, 0.03)):
        columns = {
            "prompt_id": [f"p{number}" for number in range(18)],
            "split": "ood",
            "family": [f"f{number % 6}" for number in range(18)],
            PIT: level + rng.permutation(noise),
        }
        rows = [metric_row("structured", "a", condition, "ood", PIT, level, floor=floor)]
        if condition != "ssot":
            columns["logit_kl_nats"] = 5 * level + rng.permutation(noise)
            rows.append(metric_row("structured", "a", condition, "ood", "logit_kl_nats", level, floor=math.nan))
            if condition == "base":
                columns["logit_kl_nats"][::6] = math.nan
        write_fabricated(tmp_path, rows, per_prompt=pd.DataFrame(columns))
    return ReportContext(PARAMS, read_evaluations(tmp_path), ())


def test_pairs_that_exist_are_tested_and_sizes_are_reckoned_with(tested):
    pairs = [("soft", "base"), ("hard", "base"), ("ssot", "base"), ("ssot", "soft")]
    margins = {PIT: 0.01, "logit_kl_nats": 0.02, "logit_kl_rounded_law_nats": 0.02}
    table = paired_tests_table("tests", "Tests", tested, "structured", ["ood", "unseen"], margins, pairs)
    frame = table.frame.set_index(["metric", "condition", "against"])
    # No hard; no logit KL of samples alone; and evaluations older than a metric lack it.
    assert list(frame.index) == [
        *((PIT, *pair) for pair in pairs if "hard" not in pair),
        ("logit_kl_nats", "soft", "base"),
    ]
    # A family without a value makes all of it undefined.
    assert frame["verdict"].tolist() == ["better", "better", "worse", "undefined"]
    assert frame["floor_difference"].tolist() == pytest.approx([0, 0.02, 0.02, np.nan], nan_ok=True)
    assert frame["difference"].tolist() == pytest.approx([-0.3, -0.2, 0.1, np.nan], abs=0.01, nan_ok=True)
    assert frame["p"].tolist() == pytest.approx([2 / 64] * 3 + [np.nan], nan_ok=True) and "level 0.05" in table.note
    inside = (frame["ci_low"] < frame["difference"]) & (frame["difference"] < frame["ci_high"])
    assert inside.tolist() == [True] * 3 + [False]


def test_tasks_are_tested_by_item_and_what_base_cannot_do_is_not(tmp_path):
    """Of 60 items 30 are lost, 20 gained, none changed, or one of the two that base had."""
    item = np.arange(60)
    base = {"lost": item % 2, "gained": item % 3 > 0, "same": item % 2, "nothing": item < 2}
    own = {"lost": np.zeros(60), "gained": np.ones(60), "same": base["same"], "nothing": item < 1}
    for condition, values in (("base", base), ("soft", own), ("hard", own)):
        rows = [metric_row("retention", "a", condition, task, "accuracy", 0.5) for task in values]
        tables = [pd.DataFrame({"split": task, "item": item, "value": right * 1.0}) for task, right in values.items()]
        write_fabricated(tmp_path, rows, per_prompt=pd.concat(tables))
    context = ReportContext(PARAMS, read_evaluations(tmp_path), ())
    pairs = [("soft", "base"), ("hard", "base")]
    found = paired_tests(context, "retention", list(base), {"accuracy": 0.05}, pairs).set_index("condition").loc["soft"]
    found = found.set_index("split")
    assert found["difference"].tolist() == pytest.approx([-0.5, 1 / 3, 0, -1 / 60])
    says = {"lost": "worse", "gained": "better", "same": "no relevant difference", "nothing": "cannot tell"}
    assert found["verdict"].to_dict() == says
    # Adjusted by Holm over the four tasks of a question, not over all questions.
    assert found.loc["lost", "p_adjusted"] == pytest.approx(4 * found.loc["lost", "p"])
