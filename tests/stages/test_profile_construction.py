"""What output spaces and tries take to build: the stage on a tiny tokenizer."""

import pandas as pd
import pytest

from pipeline.artifacts.storage import read_json
from pipeline.config.params import load_params
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from tests.composition import write_changed
from tests.stages.conftest import run_stage


def test_construction_is_measured_prompt_by_prompt(tiny_params, tmp_path):
    changes = {"artifacts": str(tmp_path / "artifacts"), "profile_construction": True}
    params = write_changed(tiny_params, tmp_path / "params.yaml", **changes)
    run_stage(params, "build-prompts-structured")
    run_stage(params, "check-model@embedded")
    run = run_stage(params, "profile-construction@embedded-soft")
    output, config = run.paths["output"], load_params(params).prompts
    assert output == tmp_path / "artifacts" / "construction" / "embedded-soft"
    assert read_json(output / "provenance.json")["parameters"]["discretize.soft"]["max_bins"] == 60
    expected = build_split("train", families=config.families, prompts_per_family=config.train_prompts_per_family)
    table = pd.read_parquet(output / "per_prompt.parquet")
    assert table["prompt_id"].tolist() == [prompt.prompt_id for prompt in expected]
    summary = read_json(output / "summary.json")
    for name in ("output_space", "trie"):
        assert summary[f"{name}_mean_seconds"] == pytest.approx(table[f"{name}_seconds"].mean())
        assert summary[f"{name}_peak_mb"] == pytest.approx(table[f"{name}_peak_bytes"].max() / 1e6)
    # A space of M strings holds at least an index and a probability for each, at eight bytes.
    largest = max(len(discretize(prompt.law, num_decimals=2, max_bins=60).probabilities) for prompt in expected)
    assert table["output_space_peak_bytes"].max() >= 16 * largest
