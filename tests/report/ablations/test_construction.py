"""Table 24."""

import pytest

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
