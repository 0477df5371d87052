"""Tables 25 and 26."""

import math

import pytest

from pipeline.config.params import load_params
from pipeline.report.ablations.runs import (
    HARD_ABLATION,
    PAPER_SETTINGS,
    SOFT_GRANULARITY,
    Block,
    Published,
    read_blocks,
)
from pipeline.report.ablations.tables import ablation_records, ablation_table
from tests.conftest import ROOT
from tests.report.sweep_cells import write_cell

SELECTED = (5, 16384, 16, 2)
FIGURES = {
    ("qwen3_14b", SELECTED, "ood"): Published(0.0736, False, "the paper", ""),
    ("qwen3_14b", SELECTED, "unseen"): Published(0.07, True, "the paper", "why"),
}


@pytest.fixture(scope="module")
def config():
    return load_params(ROOT / "params.yaml")


def soft_cells(sweeps, values):
    for setting, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            write_cell(sweeps, SOFT_GRANULARITY, setting, seed, value)


def row_of(table, *labels):
    (row,) = [row for row in table.rows if tuple(row[: len(labels)]) == labels]
    return row


def test_cells_show_spread_and_noise(tmp_path, config):
    soft_cells(tmp_path, {(2, 1001): [0.10, 0.12], (5, 1001): [0.11, 0.13], (3, 1001): [0.5, 0.52]})
    table = ablation_table("table25", "Table 25", SOFT_GRANULARITY, read_blocks(tmp_path, SOFT_GRANULARITY), config, {})
    assert table.header[3:6] == ["Seeds", "OOD W1", "OOD: against the best"]
    assert row_of(table, "Embedded-3.5M", "2", "1001")[3:6] == ["2", "0.1100 ± 0.0141 (0.1000 to 0.1200)", "best"]
    assert row_of(table, "Embedded-3.5M", "5", "1001")[5] == "+0.0100, within seed noise"
    assert row_of(table, "Embedded-3.5M", "3", "1001")[5] == "+0.4000, beyond seed noise"
    assert row_of(table, "Embedded-3.5M", "5", "16384")[3:] == ["—", "not run", "—", "not run", "—"]
    assert len(table.rows) == 12


def test_file_has_every_metric_in_full_precision(tmp_path, config):
    soft_cells(tmp_path, {(2, 1001): [0.1, 0.2], (5, 1001): [0.4, 0.4]})
    frame = ablation_records(SOFT_GRANULARITY, read_blocks(tmp_path, SOFT_GRANULARITY), config, {})
    chosen = frame[(frame["discretize.soft.num_decimals"] == 2) & (frame["discretize.soft.max_bins"] == 1001)]
    row = chosen[(chosen["split"] == "unseen") & (chosen["metric"] == "wasserstein_1_normalised")].iloc[0]
    assert row["mean"] == pytest.approx(0.3)
    assert row["values"] == "0:0.2 1:0.4"
    assert (row["low"], row["high"], row["seeds"]) == (0.2, 0.4, 2)
    assert row["provenance"].count("provenance.json") == 2
    valid = chosen[chosen["metric"] == "valid_rate"]
    assert valid["mean"].tolist() == [0.9, 0.9]
    assert (frame.loc[frame["metric"] == "logit_kl_nats", "status"] == "not run").all()


def test_undefined_is_said_and_not_averaged(tmp_path, config):
    soft_cells(tmp_path, {(2, 1001): [0.1, math.nan], (5, 1001): [0.4, 0.4]})
    table = ablation_table("table25", "", SOFT_GRANULARITY, read_blocks(tmp_path, SOFT_GRANULARITY), config, {})
    assert row_of(table, "Embedded-3.5M", "2", "1001")[4:6] == ["— (undefined in 1 of 2 seeds)", "—"]
    assert row_of(table, "Embedded-3.5M", "5", "1001")[5] == "best"


def test_one_seed_says_that_noise_is_unknown(tmp_path, config):
    soft_cells(tmp_path, {(2, 1001): [0.1], (5, 1001): [0.4]})
    table = ablation_table("table25", "", SOFT_GRANULARITY, read_blocks(tmp_path, SOFT_GRANULARITY), config, {})
    assert row_of(table, "Embedded-3.5M", "5", "1001")[4:6] == ["0.4000", "+0.3000, seed noise unknown"]


def test_nothing_run_is_no_table(config):
    assert ablation_table("table25", "", SOFT_GRANULARITY, [], config, {}) is None


def hard_table(sweeps, config, **keywords):
    write_cell(sweeps, HARD_ABLATION, SELECTED, 0, 0.05, model="qwen3_14b", **keywords)
    blocks = read_blocks(sweeps, HARD_ABLATION)
    return ablation_table("table26", "Table 26", HARD_ABLATION, blocks, config, FIGURES)


def test_published_figures_stand_beside_the_same_cell(tmp_path, config):
    table = hard_table(tmp_path, config, others=dict(PAPER_SETTINGS))
    row = dict(zip(table.header, row_of(table, "qwen3_14b", "5", "16384", "16", "2"), strict=True))
    assert (row["OOD W1"], row["OOD W1, paper"]) == ("0.0500", "0.0736")
    assert (row["Unseen W1"], row["Unseen W1, paper"]) == ("0.1000", "0.0700?")
    assert "no result of ours" in table.note
    # Ours are computed from ours alone.
    assert table.frame["mean"].dropna().isin([0.05, 0.1, 0.9]).all()


def test_published_figures_do_not_stand_beside_other_settings(tmp_path, config):
    table = hard_table(tmp_path, config)
    assert not any("paper" in title for title in table.header)
    assert table.frame["published"].isna().all()


def test_published_figures_of_models_that_were_not_run(config):
    blocks = [Block("qwen3_14b", {}, {})]
    table = ablation_table("table26", "Table 26", HARD_ABLATION, blocks, config, FIGURES)
    row = dict(zip(table.header, row_of(table, "qwen3_14b", "5", "16384", "16", "2"), strict=True))
    assert (row["OOD W1"], row["OOD W1, paper"]) == ("not run", "0.0736")
    assert len(table.rows) == 10
