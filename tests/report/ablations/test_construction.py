"""Table 24."""

import json

import pytest

from pipeline.report.ablations.figures import construction_plots
from pipeline.report.ablations.runs import construction_records
from pipeline.report.ablations.tables import construction_table
from tests.report.sweep_cells import write_construction


def test_means_and_worst_peaks(tmp_path):
    write_construction(tmp_path, 5, 16384, [0.010, 0.030], [2_000_000, 1_000_000])
    records = construction_records(tmp_path)
    row = records.iloc[0]
    assert row["output_space_mean_seconds"] == pytest.approx(0.020)
    assert row["output_space_max_seconds"] == 0.030
    assert row["trie_peak_bytes"] == 20_000_000
    table = construction_table(records)
    (found,) = [cells for cells in table.rows if cells[:3] == ["embedded", "5", "16384*"]]
    assert found[3:] == ["2", "20.00", "2.00", "200.00", "20.00"]


def test_settings_that_were_not_measured_say_so(tmp_path):
    write_construction(tmp_path, 5, 1001, [0.010], [1])
    rows = construction_table(construction_records(tmp_path)).rows
    assert len(rows) == 12
    assert sum(row[3:] == ["not run"] * 5 for row in rows) == 11


def test_settings_outside_the_grid_are_shown(tmp_path):
    write_construction(tmp_path, 4, 77, [0.010], [1])
    rows = construction_table(construction_records(tmp_path)).rows
    assert rows[-1][:3] == ["embedded", "4", "77"]


def test_nothing_measured(tmp_path):
    records = construction_records(tmp_path)
    assert construction_table(records) is None
    assert construction_plots(records) == []


def test_plots_have_a_line_per_part_and_number_of_decimals(tmp_path):
    for decimals in (3, 5):
        for strings in (1001, 4096):
            write_construction(tmp_path, decimals, strings, [strings * 1e-6], [strings * 100])
    time, memory = construction_plots(construction_records(tmp_path))
    names = [trace["name"] for trace in time.figure["data"]]
    assert names == ["Output space, 3 decimals", "Output space, 5 decimals", "Trie, 3 decimals", "Trie, 5 decimals"]
    assert time.figure["data"][0]["x"] == [1001, 4096]
    assert time.figure["data"][0]["y"] == pytest.approx([1.001, 4.096])
    assert memory.figure["data"][2]["y"] == pytest.approx([1.001, 4.096])
    json.dumps([time.figure, memory.figure], allow_nan=False)
    assert len(time.sources) == 4
