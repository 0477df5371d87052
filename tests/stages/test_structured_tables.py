"""The tables beside the metrics of structured sampling, and definitions of all metrics of all evaluations."""

import json

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.scores import CDF_COLUMNS
from pipeline.axes.registry import METRICS
from pipeline.axes.structured.pit import pit_wasserstein_1


def table(dag, condition, name):
    return pd.read_parquet(dag.evals("structured", condition) / f"{name}.parquet")


@pytest.mark.parametrize("condition", ["soft", "ssot"])
def test_pits_are_those_of_the_distances(dag, condition):
    samples = table(dag, condition, "samples").set_index("prompt_id")
    for row in table(dag, condition, "per_prompt").to_dict("records"):
        pits = np.sort(samples.loc[row["prompt_id"], "pits"])
        assert len(pits) == len(samples.loc[row["prompt_id"], "values"]) == row["num_valid"]
        np.testing.assert_allclose(row["pit_wasserstein_1"], pit_wasserstein_1(pits[None])[0])
        joint = 1 - row["valid_rate"] * (1 - row["pit_wasserstein_1"]) if len(pits) else 1
        assert row["pit_wasserstein_1_all_answers"] == pytest.approx(joint)


def test_exact_distribution_functions(dag):
    names = {path.name for path in dag.evals("structured", "ssot").iterdir()}
    assert "samples.parquet" in names and "exact_cdf.parquet" not in names
    found = pd.read_parquet(dag.path("score-structured@embedded-base", "cdf"))
    assert found.columns.tolist() == list(CDF_COLUMNS) and found["x"].dtype == np.float64
    assert (found["cdf_low"] <= found["cdf_high"]).all() and found["target_cdf"].between(0, 1).all()
    pd.testing.assert_frame_equal(table(dag, "base", "exact_cdf"), found)


def test_every_metric_of_every_evaluation_is_defined(dag):
    names = set()
    for path in (dag.root / "evals").rglob("metrics.json"):
        names.update(row["metric"] for row in json.loads(path.read_text())["metrics"])
    assert names and names <= set(METRICS)
