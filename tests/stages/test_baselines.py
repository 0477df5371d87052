"""Constrained decoding as a condition."""

import json
import shutil

import pandas as pd
import pytest

from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.errors import ArtifactError, ConfigError
from tests.composition import write_changed
from tests.stages.conftest import Dag, run_stage


@pytest.fixture(scope="module")
def constrained(dag, tmp_path_factory):
    """The session's DAG with constrained decoding switched on, evaluated beside base elsewhere."""
    tmp_path = tmp_path_factory.mktemp("baselines")
    sampling = {"enabled": True, "num_samples": 6, "batch_size": 3, "max_new_tokens": 24}
    changes = {f"generate__constrained__{name}": value for name, value in sampling.items()}
    changes |= {"conditions": ["base"], "artifacts": str(tmp_path / "artifacts")}
    other = Dag(write_changed(dag.params, tmp_path / "params.yaml", **changes))
    other.root.mkdir()
    for name in ("models", "tries", "output_spaces", "adapters"):
        (other.root / name).symlink_to(dag.root / name)
    shutil.copytree(dag.root / "prompts", other.root / "prompts")
    for kind in ("generations", "scores"):
        shutil.copytree(dag.root / kind / "structured", other.root / kind / "structured")
    other.evaluate("structured", "constrained")
    return other


def test_constrained_answers_are_all_valid_and_of_the_evaluation_space(constrained):
    dag = constrained
    spaces = OutputSpaceStore(dag.root / "output_spaces" / "eval.parquet")
    table = pd.read_parquet(dag.generations("constrained"))
    assert len(table) == 12 * 6
    for prompt_id, texts in table.groupby("prompt_id")["text"]:
        assert set(texts) <= set(spaces[prompt_id].values)
    rows = json.loads((dag.evals("structured", "constrained") / "metrics.json").read_text())["metrics"]
    assert {row["value"] for row in rows if row["metric"] == "valid_rate"} == {1.0}


def test_constrained_needs_tries_and_room(constrained, tmp_path):
    dag, run = constrained, "generate-baselines-structured@embedded-constrained"
    # What the condition adds to the checkpoint is one path: no other condition can be given tries beside its own.
    assert dag.path(run, "weights") == dag.root / "tries" / "embedded" / "eval"
    with pytest.raises(ArtifactError, match=r"nowhere"):
        dag.run(run, weights=tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"embedded\.json"):
        dag.run(run, weights=dag.path(run, "model_report"))
    params = write_changed(dag.params, tmp_path / "params.yaml", generate__constrained__max_new_tokens=2)
    with pytest.raises(ConfigError, match=r"generate\.constrained\.max_new_tokens: 2 is too short"):
        run_stage(params, run)
