"""Tables 24 to 26 and Figure 14 from fabricated cells, beside the paper's printed figures."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib import pyplot as plt

from pipeline.config.params import load_params
from pipeline.report.ablations import (
    HARD_ABLATION,
    PAPER_SETTINGS,
    SOFT_GRANULARITY,
    ablation_table,
    construction_records,
    construction_table,
    precision_drawings,
    read_ablations,
    read_blocks,
    read_published,
)
from tests.conftest import ROOT
from tests.report.sweep_cells import OTHERS, write_cell, write_construction

TABLE26 = ROOT / "data" / "published" / "table26.csv"
SELECTED = (5, 16384, 16, 2)


@pytest.fixture(scope="module")
def config():
    return load_params(ROOT / "params.yaml")


def soft_table(sweeps, config, values):
    """Table 25 of cells with W1 by setting and seed."""
    for setting, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            write_cell(sweeps, SOFT_GRANULARITY, setting, seed, value)
    return ablation_table(SOFT_GRANULARITY, read_blocks(sweeps, SOFT_GRANULARITY, config), {})


def row_of(table, *labels):
    (row,) = [row for row in table.rows if tuple(row[: len(labels)]) == labels]
    return row


def test_designs_are_the_presets():
    grid, cells = (
        yaml.safe_load((ROOT / "conf" / "sweep" / f"{name}.yaml").read_text())
        for name in ("soft_granularity", "hard_ablation")
    )
    first, second = (grid["grid"][key] for key in SOFT_GRANULARITY.factors)
    assert tuple(itertools.product(first, second)) == SOFT_GRANULARITY.settings
    settings = tuple(tuple(cell[key] for key in HARD_ABLATION.factors) for cell in cells["cells"])
    assert settings == HARD_ABLATION.settings


def test_construction_is_the_mean_time_and_the_largest_peak(tmp_path):
    write_construction(tmp_path, 5, 16384, [0.010, 0.030], [1_000_000, 2_000_000])
    write_construction(tmp_path, 4, 77, [0.010], [1])
    records = construction_records(tmp_path)
    assert records.iloc[1]["output_space_max_seconds"] == 0.030 and records.iloc[1]["trie_peak_bytes"] == 20_000_000
    table = construction_table(records)
    assert row_of(table, "embedded", "5", "16384*")[3:] == ["2", "20.00", "2.00", "200.00", "20.00"]
    # What was not measured says so; settings outside the grid are last.
    assert sum(row[3:] == ["not run"] * 5 for row in table.rows) == 11 and table.rows[-1][:3] == ["embedded", "4", "77"]
    assert construction_table(construction_records(tmp_path / "none")) is None


def test_cells_show_spread_and_noise(tmp_path, config):
    values = {(2, 1001): [0.10, 0.12], (5, 1001): [0.11, 0.13], (3, 1001): [0.5, 0.52], (1, 1001): [0.1, math.nan]}
    table = soft_table(tmp_path, config, values)
    assert table.header[3:6] == ["Seeds", "OOD W1", "OOD: against the best"] and len(table.rows) == 12
    assert row_of(table, "Embedded-3.5M", "2", "1001")[3:6] == ["2", "0.1100 ± 0.0141 (0.1000 to 0.1200)", "best"]
    assert row_of(table, "Embedded-3.5M", "5", "1001")[5] == "+0.0100, within seed noise"
    assert row_of(table, "Embedded-3.5M", "3", "1001")[5] == "+0.4000, beyond seed noise"
    assert row_of(table, "Embedded-3.5M", "1", "1001")[4:6] == ["— (undefined in 1 of 2 seeds)", "—"]
    assert row_of(table, "Embedded-3.5M", "5", "16384")[3:] == ["—", "not run", "—", "not run", "—"]
    frame = table.frame[(table.frame["discretize.soft.num_decimals"] == 2) & (table.frame["status"] == "ok")]
    row = frame[(frame["split"] == "unseen") & (frame["metric"] == "wasserstein_1_normalised")].iloc[0]
    assert row["mean"] == pytest.approx(0.22) and row["values"] == "0:0.2 1:0.24" and row["seeds"] == 2
    assert row["provenance"].count("provenance.json") == 2
    assert frame.loc[frame["metric"] == "valid_rate", "mean"].tolist() == [0.9, 0.9]


def test_cells_that_differ_otherwise_are_never_compared(tmp_path, config):
    write_cell(tmp_path, SOFT_GRANULARITY, (2, 1001), 0, 0.3)
    write_cell(tmp_path, SOFT_GRANULARITY, (2, 1001), 0, 0.4, others={**OTHERS, "train.learning_rate": 0.001})
    write_cell(tmp_path, SOFT_GRANULARITY, (2, 1001), 0, 0.5, model="qwen3_14b")
    write_cell(tmp_path, SOFT_GRANULARITY, (5, 1001), 0, 0.6, finished=False)
    blocks = read_blocks(tmp_path, SOFT_GRANULARITY, config)
    assert [block.title for block in blocks] == ["Embedded-3.5M (1)", "Embedded-3.5M (2)", "qwen3_14b"]
    assert {setting for block in blocks for setting, _ in block.cells} == {(2, 1001)}
    assert ablation_table(SOFT_GRANULARITY, blocks, {}).note.endswith(
        "Embedded-3.5M (1): train.learning_rate 0.001. Embedded-3.5M (2): train.learning_rate 0.004."
    )


def test_published_figures_stand_beside_the_same_settings_alone(tmp_path, config):
    published = read_published(TABLE26)
    write_cell(tmp_path / "same", HARD_ABLATION, SELECTED, 0, 0.05, model="qwen3_14b", others=dict(PAPER_SETTINGS))
    table = ablation_table(HARD_ABLATION, read_blocks(tmp_path / "same", HARD_ABLATION, config), published)
    row = dict(zip(table.header, row_of(table, "qwen3_14b", "5", "16384", "16", "2"), strict=True))
    assert (row["OOD W1"], row["OOD W1, paper"]) == ("0.0500", "0.0736") and "no result of ours" in table.note
    for name, others in {"other": OTHERS, "words": PAPER_SETTINGS | {"laws.pairs": "data/laws/pairs.yaml"}}.items():
        write_cell(tmp_path / name, HARD_ABLATION, SELECTED, 0, 0.05, model="qwen3_14b", others=others)
        table = ablation_table(HARD_ABLATION, read_blocks(tmp_path / name, HARD_ABLATION, config), published)
        assert not any("paper" in title for title in table.header) and table.frame["published"].isna().all()


def test_published_figures_stand_alone_where_the_experiments_model_was_not_run(tmp_path, config):
    models = {"qwen3_14b": dataclasses.replace(config.models["embedded"], display_name="Qwen3-14B")}
    ablations = read_ablations(tmp_path, TABLE26, dataclasses.replace(config, models=models), [])
    (table,) = ablations.tables
    row = dict(zip(table.header, table.rows[-1], strict=True))
    assert (row["Model"], row["OOD W1"], row["OOD W1, paper"]) == ("Qwen3-14B", "not run", "0.0701")
    assert [text.split()[0] for text in ablations.missing] == ["construction_cost", "soft_granularity", "hard_ablation"]


def test_figure_14_overlays_samples_of_all_seeds_by_decimals(tmp_path, config, prompts):
    members, _ = prompts
    for setting, seed in (((2, 1001), 0), ((2, 1001), 1), ((5, 1001), 0), ((3, 4096), 0)):
        values = [[1.0 + seed, 2.0, 2.0, 900.0]] * len(members)
        samples = pd.DataFrame({"prompt_id": [prompt.prompt_id for prompt in members], "values": values})
        write_cell(tmp_path, SOFT_GRANULARITY, setting, seed, 0.1, samples=samples)
    drawing = precision_drawings(read_blocks(tmp_path, SOFT_GRANULARITY, config), members)["figure14"]
    shown, samples, _, labels = drawing.arguments
    assert labels == ["2 decimals", "5 decimals"] and len(shown) == 2
    found = samples["Embedded-3.5M"]["2 decimals", shown[0].prompt_id]
    np.testing.assert_array_equal(np.sort(found), [1, 2, 2, 2, 2, 2, 900, 900])
    plt.close(drawing.function(*drawing.arguments))
    assert precision_drawings([], members) == {}
