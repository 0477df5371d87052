"""The stages on the tiny model: artifacts in the agreed form, resume, and the report."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.axes.registry import METRICS
from pipeline.config.params import load_params
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import PIECES
from pipeline.record.provenance import run_identity, sha256_path
from pipeline.report.evaluations import METRIC_COLUMNS
from pipeline.runs.costs import record_paths
from tests.conftest import ROOT
from tests.stages.conftest import AXES, run_stage


def test_every_run_has_a_record_that_fits_what_is_there(dag):
    params = load_params(dag.params)
    records = [
        (name, json.loads(path.read_text()))
        for name, node in StageGraph(params, PIECES).items()
        for path in record_paths(node, params)
        if path.exists()
    ]
    assert len({name.partition("@")[0] for name, _ in records}) > len(PIECES) / 2
    for name, record in records:
        assert record["stage"] == name.partition("@")[0] and record["outputs_sha256"]
        for made, expected in {**record["inputs_sha256"], **record["outputs_sha256"]}.items():
            assert sha256_path(Path(made)) == expected, f"{name}: {made}"
        keys = ("stage", "code", "parameters", "found", "inputs_sha256")
        assert record["identity"] == run_identity(*(record[key] for key in keys))


def test_generation_resumes_by_sample_and_gives_the_same_table(dag, tmp_path, monkeypatch):
    from pipeline.engines.sampling.transformers_engine import TransformersEngine

    output, original = dag.generations("soft"), TransformersEngine.sample
    before = pd.read_parquet(output)
    finished = []

    def killed(engine, requests):
        for answers in original(engine, requests):
            # In the middle of the fourth prompt's 12 samples.
            if len(finished) >= 40:
                raise KeyboardInterrupt
            finished.extend(answers)
            yield answers

    def generate_again():
        run_stage(dag.params, "generate-structured@embedded-soft")

    monkeypatch.setattr(TransformersEngine, "sample", killed)
    with pytest.raises(KeyboardInterrupt):
        generate_again()
    pd.testing.assert_frame_equal(pd.read_parquet(output), before)
    assert 40 <= len(finished) < 144
    resumed = []

    def counted(engine, requests):
        resumed.extend(seed for request in requests for seed in request.seeds.values())
        return original(engine, requests)

    monkeypatch.setattr(TransformersEngine, "sample", counted)
    generate_again()
    # Nothing that was finished is sampled again, and nothing that was lost was finished.
    assert len(resumed) == 144 - len(finished)
    pd.testing.assert_frame_equal(pd.read_parquet(output), before)


@pytest.fixture(scope="module")
def report(dag, tmp_path_factory):
    """The run of the report on all evaluations and adapters, with every figure, and its directory."""
    directory = tmp_path_factory.mktemp("reports")
    return dag.run("report", adapters=[dag.root / "adapters"], metrics=directory / "metrics.csv"), directory


def test_report(dag, report):
    _, directory = report
    metrics = pd.read_csv(directory / "metrics.csv")
    assert list(metrics.columns) == list(METRIC_COLUMNS)
    assert set(metrics["axis"]) == set(AXES) and set(metrics["metric"]) <= set(METRICS)
    for name, split in (("table6", "ood"), ("table7", "unseen")):
        table = pd.read_csv(directory / "tables" / f"{name}.csv")
        assert len(table) == 12 and set(table["status"]) <= {"ok", "undefined"}
        for row in table.itertuples():
            source = json.loads((dag.evals("structured", row.condition) / "metrics.json").read_text())["metrics"]
            (cell,) = (r for r in source if (r["split"], r["family"], r["metric"]) == (split, "", row.metric))
            assert (np.isnan(row.value) and cell["value"] is None) or row.value == pytest.approx(
                cell["value"], rel=1e-12
            )
            assert row.provenance.endswith(f"{row.condition}/provenance.json")
        assert r"\toprule" in (directory / "tables" / f"{name}.tex").read_text()
    names = {path.stem for path in (directory / "tables").glob("*.csv")}
    assert {"table10", "table11_stand_in"} <= names <= {path.stem for path in (directory / "tables").glob("*.md")}
    document = (directory / "tables" / "all_tables.tex").read_text()
    assert sorted(re.findall(r"^\\input\{(\w+)\}", document, re.MULTILINE)) == sorted(names)
    figures = sorted((directory / "figures").glob("*.png"))
    assert figures and all(path.read_bytes().startswith(b"\x89PNG") for path in figures)
    assert all(path.with_suffix(".pdf").read_bytes().startswith(b"%PDF") for path in figures)
    page = (directory / "index.html").read_text()
    # The table of the first screen has no heading of its own.
    assert page.count('<img src="data:image/png;base64,') == len(figures) and page.count("<h3>") == len(names) - 1
    # What the page may load: nothing from anywhere.
    assert "default-src 'none'" in page


def test_recorded_results_make_the_same_report(dag, report, tmp_path, one_figure):
    run, directory = report
    shutil.copytree(directory, tmp_path / "reports")
    (tmp_path / "params.yaml").write_bytes(dag.params.read_bytes())
    (tmp_path / "dvc.lock").write_text("")
    record = [ROOT / "scripts" / "record_results.sh", dag.root, tmp_path / "reports", "results/small"]
    (tmp_path / "results" / "small").mkdir(parents=True)
    (tmp_path / "results" / "small" / "README.md").write_text("Written by hand.")
    for _ in range(2):
        subprocess.run(record, cwd=tmp_path, check=True, capture_output=True)
    kept = tmp_path / "results" / "small"
    assert (kept / "README.md").read_text() == "Written by hand." and not list(kept.rglob("*.safetensors"))
    assert sorted(item.name for item in (tmp_path / "results").iterdir()) == ["small"]
    moved = {
        "evals": [kept / "evals"],
        "adapters": [kept / "adapters"],
        "prompts": [kept / "prompts" / f"{split}.parquet" for split in ("unseen", "ood")],
        "metrics": tmp_path / "again" / "metrics.csv",
    }
    again = run_stage(kept / "params.yaml", "report", **moved)
    assert again.inputs != run.inputs
    tables = sorted((tmp_path / "reports" / "tables").glob("*.md"))
    assert tables and all(
        (tmp_path / "again" / "tables" / path.name).read_bytes() == path.read_bytes() for path in tables
    )
    values = [pd.read_csv(tmp_path / name / "metrics.csv").drop(columns="provenance") for name in ("reports", "again")]
    pd.testing.assert_frame_equal(*values)
