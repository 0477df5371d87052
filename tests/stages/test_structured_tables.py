"""The tables beside the metrics of structured sampling, and definitions of all metrics of all evaluations."""

import json

import numpy as np
import pandas as pd
import pytest

from pipeline.artifacts.scores import CDF_COLUMNS
from pipeline.axes.registry import METRICS
from pipeline.axes.structured.aggregate import DISTANCES
from pipeline.axes.structured.pit import pit_wasserstein_1


def table(dag, condition, name):
    return pd.read_parquet(dag.evals("structured", condition) / f"{name}.parquet")


@pytest.mark.parametrize("condition", ["base", "soft", "ssot"])
def test_pits_and_their_histograms(dag, condition):
    samples = table(dag, condition, "samples").set_index("prompt_id")
    histograms, per_prompt = table(dag, condition, "pit"), table(dag, condition, "per_prompt")
    assert histograms.columns.tolist() == ["prompt_id", "bin", "count", "expected"]
    for row in per_prompt.to_dict("records"):
        pits = np.sort(samples.loc[row["prompt_id"], "pits"])
        assert len(pits) == len(samples.loc[row["prompt_id"], "values"]) == row["num_valid"]
        own = histograms[histograms["prompt_id"] == row["prompt_id"]]
        assert own["bin"].tolist() == list(range(20)) and own["count"].sum() == len(pits)
        np.testing.assert_allclose(row["pit_wasserstein_1"], pit_wasserstein_1(pits[None])[0])
        joint = 1 - row["valid_rate"] * (1 - row["pit_wasserstein_1"]) if len(pits) else 1
        assert row["pit_wasserstein_1_all_answers"] == pytest.approx(joint)


def test_metrics_have_floors_and_intervals(dag):
    content = json.loads((dag.evals("structured", "soft") / "metrics.json").read_text())
    rows = {(row["split"], row["family"], row["metric"]): row for row in content["metrics"]}
    for split in ("ood", "unseen"):
        for metric in DISTANCES:
            row = rows[split, "", metric]
            if row["value"] is not None:
                assert (row["floor"] or 1) > 0 and row["ci_low"] <= row["value"] <= row["ci_high"]
        # An invalid answer costs: it is defined where nothing is valid, too.
        joint = rows[split, "", "pit_wasserstein_1_all_answers"]
        assert 0 < joint["value"] <= 1 and joint["undefined"] == 0


def test_a_baseline_has_no_logits(dag):
    names = {path.name for path in dag.evals("structured", "ssot").iterdir()}
    assert {"pit.parquet", "samples.parquet"} <= names and "exact_cdf.parquet" not in names


def test_exact_distribution_functions(dag, tmp_path):
    cdf = tmp_path / "base.cdf.parquet"
    dag.run("exact-structured@embedded-base", prompts=dag.prompts[:1], output=tmp_path / "base.parquet", cdf=cdf)
    found = pd.read_parquet(cdf)
    assert found.columns.tolist() == list(CDF_COLUMNS) and found["x"].dtype == np.float64
    assert set(found["prompt_id"]) == set(pd.read_parquet(dag.prompts[0])["prompt_id"])
    assert (found["cdf_low"] <= found["cdf_high"]).all() and found["target_cdf"].between(0, 1).all()
    whole = dag.path("exact-structured@embedded-base", "cdf")
    kept = pd.read_parquet(whole)
    pd.testing.assert_frame_equal(kept[kept["prompt_id"].isin(found["prompt_id"])].reset_index(drop=True), found)
    pd.testing.assert_frame_equal(table(dag, "base", "exact_cdf"), kept)


def test_every_metric_of_every_evaluation_is_defined(dag):
    names = set()
    for path in (dag.root / "evals").rglob("metrics.json"):
        names.update(row["metric"] for row in json.loads(path.read_text())["metrics"])
    assert len(names) > 50 and names <= set(METRICS)
