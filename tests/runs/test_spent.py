"""Measured cost by stage, model and condition, from records written by hand."""

import json

import pandas as pd
import pytest

from pipeline.config.params import load_params
from pipeline.runs.spent import main, spent_table, summary


def record(root, path, seconds, **more):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    content = {"wall_time_seconds": seconds, "device": "A100", "peak_gpu_memory_bytes": None, **more}
    (root / path).write_text(json.dumps(content))


@pytest.fixture
def project(tiny_params, tmp_path):
    root = load_params(tiny_params).artifacts
    text = tiny_params.read_text().replace(root, "artifacts")
    (tmp_path / "params.yaml").write_text(text)
    sampled = {"tokens_read": 1000, "num_generated_tokens": 70, "peak_memory_bytes": 2 * 10**9}
    record(tmp_path, "artifacts/generations/open/embedded/base.provenance.json", 2.0, **sampled)
    more = {**sampled, "peak_memory_bytes": 3 * 10**9, "peak_gpu_memory_bytes": 10**9, "continued": True}
    record(tmp_path, "artifacts/generations/open/embedded/soft.provenance.json", 4.0, **more)
    spread = {"tokens_read": 50, "peak_memory_bytes": 10**9, "distributed": {"num_processes": 4}}
    record(tmp_path, "artifacts/adapters/embedded/soft/provenance.json", 8.0, **spread)
    for condition, seconds in (("base", 0.25), ("soft", 0.5)):
        record(tmp_path, f"artifacts/evals/mcq/embedded/{condition}/provenance.json", seconds)
    # Of an older version: nothing but the time.
    record(tmp_path, "artifacts/prompts/provenance.json", 0.5)
    return tmp_path


def test_one_row_per_record_in_the_dags_order(project):
    table = spent_table(load_params(project / "params.yaml"), project)
    keys = ["stage", "model", "condition"]
    assert table[keys].to_numpy().tolist() == [
        ["build-prompts-structured", "", ""],
        ["train-soft", "embedded", ""],
        ["generate-open", "embedded", "base"],
        ["generate-open", "embedded", "soft"],
        # One run, of whose records the last is written at its end.
        ["eval-mcq", "embedded", ""],
    ]
    assert table["wall_seconds"].tolist() == [0.5, 8.0, 2.0, 4.0, 0.5]
    assert table["device"].tolist() == ["A100", "4 x A100", "A100", "A100", "A100"]
    assert table["tokens_generated"].isna().tolist() == [True, True, False, False, True]
    assert (table["planned_gpu_hours"] > 0).tolist() == [False, True, True, True, False]
    assert table["record"].tolist()[1] == "artifacts/adapters/embedded/soft/provenance.json"
    by_stage = summary(table, ["stage"]).set_index("stage")
    assert by_stage.loc["generate-open", ["runs", "wall_seconds", "tokens_read"]].tolist() == [2, 6.0, 2000]
    assert by_stage.loc["generate-open", ["peak_memory_gb", "peak_gpu_memory_gb"]].tolist() == [3.0, 1.0]
    assert by_stage["continued"].to_dict() == {
        "build-prompts-structured": False,
        "train-soft": False,
        "generate-open": True,
        "eval-mcq": False,
    } and pd.isna(by_stage.loc["build-prompts-structured", "tokens_read"])


def test_tables_are_printed_and_written(project, capsys):
    main(project / "params.yaml", project / "spent.csv")
    shown = capsys.readouterr().out
    assert "records of 5 of" in shown and "(shared)" in shown and "devices: A100, 4 x A100" in shown
    lines = {tuple(line.split()[:3]): line.split() for line in shown.splitlines()}
    assert lines["generate-open", "embedded", "soft"][4:9] == ["4.0+", "1,000", "70", "3.00", "1.00"]
    assert lines["build-prompts-structured", "(shared)", "1"][3:7] == ["0.5", "-", "-", "-"]
    assert any(line.split()[:3] == ["all", "5", "15.0+"] for line in shown.splitlines())
    assert len(pd.read_csv(project / "spent.csv")) == 5
    (project / "params.yaml").write_text(
        (project / "params.yaml").read_text().replace("artifacts: artifacts", "artifacts: none")
    )
    main(project / "params.yaml", None)
    assert "records of 0 of" in capsys.readouterr().out
