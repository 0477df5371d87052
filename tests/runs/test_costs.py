"""Measured cost by stage, model and condition, from records written by hand; the plan of what is to run."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.config.params import load_params
from pipeline.runs.costs import plan, spent, spent_table, summary
from tests.composition import composed_params
from tests.conftest import ROOT


def record(root, path, seconds, **more):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    content = {"wall_time_seconds": seconds, "device": "A100", "peak_gpu_memory_bytes": None, **more}
    (root / path).write_text(json.dumps(content))


@pytest.fixture
def project(tiny_params, tmp_path):
    root = load_params(tiny_params).artifacts
    (tmp_path / "params.yaml").write_text(tiny_params.read_text().replace(root, "artifacts"))
    sampled = {"tokens_read": 1000, "num_generated_tokens": 70, "peak_memory_bytes": 2 * 10**9}
    record(tmp_path, "artifacts/generations/open/embedded/base.provenance.json", 2.0, **sampled)
    more = {**sampled, "peak_memory_bytes": 3 * 10**9, "peak_gpu_memory_bytes": 10**9, "continued": True}
    record(tmp_path, "artifacts/generations/open/embedded/soft.provenance.json", 4.0, **more)
    spread = {"tokens_read": 50, "peak_memory_bytes": 10**9, "distributed": {"num_processes": 4}}
    record(tmp_path, "artifacts/adapters/embedded/soft/provenance.json", 8.0, **spread)
    # One run, of whose records the last is written at its end.
    for condition, seconds in (("base", 0.25), ("soft", 0.5)):
        record(tmp_path, f"artifacts/evals/mcq/embedded/{condition}/provenance.json", seconds)
    return tmp_path


def test_one_row_per_record_in_the_dags_order(project):
    table = spent_table(load_params(project / "params.yaml"), project)
    assert table[["stage", "condition", "wall_seconds", "device"]].to_numpy().tolist() == [
        ["train-soft", "", 8.0, "4 x A100"],
        ["generate-open", "base", 2.0, "A100"],
        ["generate-open", "soft", 4.0, "A100"],
        ["eval-mcq", "", 0.5, "A100"],
    ]
    assert (table["planned_gpu_hours"] > 0).tolist() == [True, True, True, False]
    by_stage = summary(table, ["stage"]).set_index("stage")
    assert by_stage.loc["generate-open", ["runs", "wall_seconds", "tokens_read"]].tolist() == [2, 6.0, 2000]
    assert by_stage.loc["generate-open", ["peak_memory_gb", "peak_gpu_memory_gb"]].tolist() == [3.0, 1.0]
    assert by_stage["continued"].tolist() == [False, True, False] and pd.isna(by_stage.loc["eval-mcq", "tokens_read"])


def test_tables_are_printed_and_written(project, capsys):
    spent(project / "params.yaml", project / "spent.csv")
    lines = {tuple(line.split()[:3]): line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["generate-open", "embedded", "soft"][4:9] == ["4.0+", "1,000", "70", "3.00", "1.00"]
    assert lines["all", "4", "14.5+"] and len(pd.read_csv(project / "spent.csv")) == 4


@pytest.mark.slow
def test_the_plan_sums_over_what_there_is(tmp_path, capsys):
    params, csv = tmp_path / "params.yaml", tmp_path / "plan.csv"
    params.write_text(yaml.safe_dump(composed_params("experiment=paper")))
    plan(params, csv, all_stages=True, recorded=ROOT / "results/laptop_longer/seed_0")
    table, printed = pd.read_csv(csv), capsys.readouterr().out
    assert table.groupby("stage")["stages"].sum()["train-soft"] == 12 and "Estimates" in printed
    # What one model can show on six families, as varied as SmolLM2: a change by more than half of the scale.
    shown = [line.split() for line in printed.splitlines() if "pit_wasserstein_1_all_answers" in line]
    assert shown[0][1:5] == ["ood", "soft", "−", "base"] and 0.5 < float(shown[0][6]) < 0.9 and len(shown) == 6
    total = float(next(line for line in printed.splitlines() if line.startswith("total")).split()[4])
    assert total == pytest.approx(table["gpu_hours"].sum(), abs=0.01) == table["gpu_hours_to_run"].sum()
    params.write_text(yaml.safe_dump(composed_params("experiment=paper", "axes=[structured,open]")))
    plan(params, csv, all_stages=True, recorded=Path("nowhere"))
    assert not {"reward-novelty", "import-irt", "score-paloma"} & set(pd.read_csv(csv)["stage"])
