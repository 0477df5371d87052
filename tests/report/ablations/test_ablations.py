"""The ablations as the report asks for them."""

from types import SimpleNamespace

import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.report.ablations.runs import HARD_ABLATION, SOFT_GRANULARITY, read_ablations
from pipeline.report.ablations.tables import ablation_tables
from pipeline.report.write import write_report
from tests.conftest import ROOT
from tests.report.conftest import structured
from tests.report.sweep_cells import write_cell, write_construction

pytestmark = pytest.mark.slow

PUBLISHED = ROOT / "data" / "published"


@pytest.fixture(scope="module")
def config():
    return load_params(ROOT / "params.yaml")


def test_all_three(tmp_path, config):
    write_construction(tmp_path, 5, 1001, [0.01], [10])
    write_cell(tmp_path, SOFT_GRANULARITY, (2, 1001), 0, 0.1)
    write_cell(tmp_path, HARD_ABLATION, (5, 16384, 16, 2), 0, 0.1)
    ablations = read_ablations(tmp_path, PUBLISHED)
    assert [table.name for table in ablation_tables(ablations, config)] == ["table24", "table25", "table26"]
    assert ablations.missing == []
    assert ablations.are_all_of(["embedded"])
    assert not ablations.are_all_of(["qwen3_14b"])


def test_the_report_shows_them_with_their_sources(tmp_path, prompts, capsys):
    members, path = prompts
    structured(tmp_path / "evals", "embedded", "base", 0.4, members)
    samples = pd.DataFrame({"prompt_id": [p.prompt_id for p in members], "values": [[1.0, 2.0]] * len(members)})
    for setting, value in (((2, 1001), 0.1), ((5, 1001), 0.3)):
        for seed in (0, 1):
            write_cell(tmp_path / "sweeps", SOFT_GRANULARITY, setting, seed, value + seed / 100, samples=samples)
    arguments = (load_params(ROOT / "params.yaml"), [tmp_path / "evals"], [path], tmp_path / "reports")
    write_report(*arguments, sweeps=tmp_path / "sweeps", published=PUBLISHED)
    reports = tmp_path / "reports"
    assert "ablations not run: construction_cost (Table 24); hard_ablation (Table 26)" in capsys.readouterr().out
    assert (reports / "figures" / "figure14.pdf").stat().st_size > 1000
    table = pd.read_csv(reports / "tables" / "table25.csv")
    chosen = table[(table["status"] == "ok") & (table["metric"] == "wasserstein_1_normalised")]
    assert chosen["mean"].tolist() == pytest.approx([0.105, 0.305, 0.21, 0.61])
    assert "beyond seed noise" in (reports / "tables" / "table25.md").read_text(encoding="utf-8")
    page = (reports / "index.html").read_text(encoding="utf-8")
    cell = next((tmp_path / "sweeps").glob("*/*/artifacts/evals/structured/embedded/soft/provenance.json"))
    assert f"<code>{cell}</code>" in page


def test_the_paper_experiment_shows_published_figures_beside_missing_cells(tmp_path):
    experiment = SimpleNamespace(models={"qwen3_14b": SimpleNamespace(display_name="Qwen3-14B")})
    (table,) = ablation_tables(read_ablations(tmp_path, PUBLISHED), experiment)
    row = dict(zip(table.header, table.rows[-1], strict=True))
    assert (row["Model"], row["OOD W1"], row["OOD W1, paper"]) == ("Qwen3-14B", "not run", "0.0701")
