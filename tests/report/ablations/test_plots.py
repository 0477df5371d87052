"""Interactive figures of Tables 25 and 26."""

import json
import math

import pytest

from pipeline.config.params import load_params
from pipeline.core.statistics.seed_noise import compare_with_best, spread
from pipeline.report.ablations.figures import setting_label, setting_plots, short_label
from pipeline.report.ablations.runs import HARD_ABLATION, SOFT_GRANULARITY, read_blocks
from pipeline.report.ablations.tables import ablation_records
from tests.conftest import ROOT
from tests.report.sweep_cells import write_cell


def plots_of(sweeps, values):
    for setting, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            write_cell(sweeps, SOFT_GRANULARITY, setting, seed, value)
    records = ablation_records(
        SOFT_GRANULARITY, read_blocks(sweeps, SOFT_GRANULARITY), load_params(ROOT / "params.yaml"), {}
    )
    return setting_plots("table25", "Soft", SOFT_GRANULARITY, records)


def test_every_seed_is_a_point_and_the_band_is_seed_noise(tmp_path):
    groups = {(2, 1001): [0.10, 0.12], (5, 1001): [0.5, 0.52]}
    ood, unseen = plots_of(tmp_path, groups)
    assert (ood.title, unseen.title) == (
        "Soft: Embedded-3.5M, W1, OOD",
        "Soft: Embedded-3.5M, W1, Unseen",
    )
    seeds, means = ood.figure["data"]
    assert list(zip(seeds["x"], seeds["y"], strict=True)) == [(0.10, 0), (0.12, 0), (0.5, 1), (0.52, 1)]
    assert means["x"] == pytest.approx([0.11, 0.51])
    assert ood.figure["layout"]["yaxis"]["ticktext"] == ["2/1001", "5/1001"]
    band, floor = ood.figure["layout"]["shapes"]
    margin = compare_with_best([spread(values) for values in groups.values()])[1].margin
    assert (band["x0"], band["x1"]) == pytest.approx((0.11, 0.11 + margin))
    assert floor["x0"] == 0.02
    assert "Beyond it: 1 of 2." in ood.note
    assert len(ood.sources) == 4
    assert means["text"][0].startswith("2 decimals, 1001 strings<br>mean 0.1100 of 2 seeds<br>best")
    json.dumps([ood.figure, unseen.figure], allow_nan=False)


def test_single_seeds_have_no_band(tmp_path):
    ood, _ = plots_of(tmp_path, {(2, 1001): [0.1], (5, 1001): [0.2]})
    assert [shape["type"] for shape in ood.figure["layout"]["shapes"]] == ["line"]
    assert "No statement on seed noise" in ood.note
    json.dumps(ood.figure, allow_nan=False)


def test_undefined_settings_are_left_out(tmp_path):
    ood, _ = plots_of(tmp_path, {(2, 1001): [0.1, math.nan], (5, 1001): [0.2, 0.3]})
    assert ood.figure["layout"]["yaxis"]["ticktext"] == ["5/1001"]


def test_nothing_run(tmp_path):
    assert plots_of(tmp_path, {}) == []


def test_labels_of_the_hard_settings():
    record = dict(zip(HARD_ABLATION.factors, (5, 16384, 16, 2), strict=True))
    assert short_label(record, HARD_ABLATION) == "5/16384, 16×2"
    assert setting_label(record, HARD_ABLATION) == "5 decimals, 16384 strings, 16 draws, 2 epochs"
