"""The benchmark of several processes trains and counts; its seconds are not checked."""

import json

import pytest

from benchmarks import distributed


def test_figures_of_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "PROMPTS", 5)
    monkeypatch.setattr(distributed, "ROWS_PER_PASS", 2)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    distributed.measure("single", "embedded", 1, tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    model = distributed.benchmarked_model("embedded")
    adapter = sum(value.numel() for value in model.parameters() if value.requires_grad)
    frozen = sum(value.numel() for value in model.parameters()) - adapter
    # float32: four bytes each.
    assert figures["adapter_mb"] == pytest.approx(4e-6 * adapter)
    assert figures["parameters_mb"] == pytest.approx(4e-6 * frozen)
    assert figures["seconds"] > 0 and 0 < figures["loss"] < 10
