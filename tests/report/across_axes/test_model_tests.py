"""The table of tests over models: numbers, tasks and text, from files."""

import numpy as np
import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.report.across_axes.model_tests import model_comparisons, model_tests_table
from pipeline.report.evaluations import read_evaluations
from tests.conftest import ROOT
from tests.report.conftest import metric_row, paired_rows, write_fabricated

MODELS = {f"m{number}": f"Model {number}" for number in range(8)}
PARAMS = load_params(ROOT / "params.yaml")
LEVELS = {"base": 0.2, "soft": 0.1, "hard": 0.102}
FAMILIES = np.repeat(list("abcdefgh"), 3)


def write_structured(root, model, condition, rng):
    shared = np.random.default_rng(0).exponential(0.05, size=24)
    table = pd.DataFrame({"prompt_id": [f"p{n}" for n in range(24)], "split": "ood", "family": FAMILIES})
    table["wasserstein_1_normalised"] = LEVELS[condition] + shared + 0.001 * rng.normal(size=24)
    row = metric_row("structured", model, condition, "ood", "wasserstein_1_normalised", 0.1)
    write_fabricated(root, [row], per_prompt=table)


def write_retention(root, model, condition, rng):
    tasks = ("tinyMMLU", "tinyGSM8k (strict)", "tinyGSM8k (flexible)")
    base = {task: rng.integers(2, size=100).astype(float) for task in tasks}
    # Soft keeps all of MMLU and loses a fifth of GSM8K; the strict reading, which loses all, does not count.
    kept = {tasks[0]: np.ones(100), tasks[1]: np.zeros(100), tasks[2]: rng.random(100) > 0.2}
    items = [
        pd.DataFrame(
            {"split": task, "item": np.arange(100), "value": base[task] * kept[task], "base_value": base[task]}
        )
        for task in tasks
    ]
    row = metric_row("retention", model, condition, "all", "accuracy", 0.5)
    write_fabricated(root, [row], per_prompt=pd.concat(items))


def write_paloma(root, model, condition):
    tests = paired_rows([("all", "bits_per_byte", 0.005, 0.02, 0.5, 0.01, "kept")])
    row = metric_row("paloma", model, condition, "all", "bits_per_byte", 1.0)
    write_fabricated(root, [row], tests=tests)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(1)
    for model in MODELS:
        for condition in LEVELS:
            write_structured(root, model, condition, rng)
        write_retention(root, model, "soft", rng)
        write_paloma(root, model, "soft")
    evaluations = read_evaluations(root)
    table = model_comparisons(PARAMS, evaluations, evaluations.metrics, MODELS)
    return table.set_index(["metric", "condition", "against"])


def test_numbers_with_their_margin(found):
    better, same = (found.loc[("wasserstein_1_normalised", *pair)] for pair in (("soft", "base"), ("soft", "hard")))
    assert better["difference"] == pytest.approx(-0.1, abs=0.002)
    assert (better["verdict"], better["better"], better["p"]) == ("better", 8, 2 / 2**8)
    # Lower in every model, and by a fifth of the margin.
    assert (same["verdict"], same["margin"]) == ("no relevant difference", 0.01) and same["p"] < 0.05


def test_tasks_count_gsm8k_once(found):
    row = found.loc[("accuracy", "soft", "base")]
    assert row["difference"] == pytest.approx(-0.05, abs=0.015) and row["verdict"] == "cannot tell"
    assert row["better"] == 0 and row["margin"] == 0.05 and row["ci_low"] < row["difference"] < row["ci_high"]


def test_text_has_no_relevant_difference(found):
    row = found.loc[("bits_per_byte", "soft", "base")]
    assert (row["verdict"], row["margin"]) == ("no relevant difference", 0.02)


def test_every_row_names_its_evaluations(found):
    table = model_tests_table(found.reset_index(), 0.05)
    assert len(table.rows) == 5 and all(text.count("provenance.json") >= 8 for text in table.frame["provenance"])
