"""From the stages to a published adapter: what a finished DAG leaves is what publishing asks for."""

from pathlib import Path

import yaml
from huggingface_hub import metadata_load

from pipeline.artifacts.adapters import WEIGHTS
from pipeline.publish.__main__ import main
from pipeline.record.provenance import sha256_path
from pipeline.report.evaluations import METRIC_COLUMNS, read_evaluations


def test_a_finished_dag_can_be_published(dag, tmp_path):
    reports = tmp_path / "reports"
    reports.mkdir()
    # Where the report lies changes no artifact.
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump({**yaml.safe_load(dag.params.read_text()), "reports": str(reports)}))
    metrics = read_evaluations(dag.root / "evals").metrics
    metrics[list(METRIC_COLUMNS)].to_csv(reports / "metrics.csv", index=False)
    output: Path = tmp_path / "adapter"
    main(params, "embedded", "hard", output, None, "mit")
    assert sha256_path(output / WEIGHTS) == sha256_path(dag.root / "adapters" / "embedded" / "hard" / WEIGHTS)
    assert metadata_load(output / "README.md")["license"] == "mit"
