"""Baselines as conditions: String Seed of Thought, batches, verbalised and constrained sampling."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.artifacts.output_spaces import OutputSpaceStore
from pipeline.artifacts.prompts import read_prompts, write_text_prompts
from pipeline.axes.structured.wasserstein import perfect_sampler_replicates
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.open_ended import open_prompts
from pipeline.core.random_streams import random_stream
from pipeline.errors import ArtifactError, ConfigError
from tests.stages.conftest import Dag, run_stage


@pytest.fixture(scope="module")
def all_baselines(dag, tmp_path_factory):
    """The session's DAG with every baseline switched on, evaluated beside base elsewhere."""
    tmp_path = tmp_path_factory.mktemp("baselines")
    values = yaml.safe_load(dag.params.read_text()) | {"conditions": ["base"]}
    for name in ("constrained", "batch", "verbalized"):
        values["generate"][name] |= {"enabled": True, "num_samples": 6, "batch_size": 3, "max_new_tokens": 24}
    values["generate"]["batch"] |= {"num_samples": 3, "answers_per_request": 4}
    values["artifacts"] = str(tmp_path / "artifacts")
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))
    other = Dag(params)
    other.root.mkdir()
    for name in ("models", "tries", "output_spaces", "adapters"):
        (other.root / name).symlink_to(dag.root / name)
    shutil.copytree(dag.root / "prompts", other.root / "prompts")
    few = [prompt for prompt in open_prompts() if prompt.category in ("city", "mammal", "weekday")]
    write_text_prompts(other.path("generate-open@embedded-base", "prompts")[0], few)
    for kind in ("generations", "scores"):
        shutil.copytree(dag.root / kind / "structured", other.root / kind / "structured")
    other.evaluate("structured", "constrained", "batch", "verbalized")
    other.evaluate("open", "base", "ssot", "batch", "verbalized")
    return other


def evaluated(dag, condition):
    directory = dag.evals("structured", condition)
    rows = json.loads((directory / "metrics.json").read_text())["metrics"]
    return rows, pd.read_parquet(directory / "per_prompt.parquet")


def test_constrained_answers_are_all_valid_and_of_the_evaluation_space(all_baselines):
    dag = all_baselines
    spaces = OutputSpaceStore(dag.root / "output_spaces" / "eval.parquet")
    table = pd.read_parquet(dag.generations("constrained"))
    assert len(table) == 12 * 6
    for prompt_id, texts in table.groupby("prompt_id")["text"]:
        assert set(texts) <= set(spaces[prompt_id].values)
    rows, per_prompt = evaluated(dag, "constrained")
    assert {row["value"] for row in rows if row["metric"] == "valid_rate"} == {1.0}
    # The floor is that of its own number of answers, 6 per prompt.
    laws = {prompt.prompt_id: prompt.law for prompt in read_prompts(*dag.prompts)}
    for row in per_prompt.itertuples():
        rng = random_stream(0, "floor", "structured", row.prompt_id, 6)
        assert row.floor == np.mean(perfect_sampler_replicates(laws[row.prompt_id], 6, 20, rng))


def test_constrained_needs_tries_and_room(all_baselines, tmp_path):
    dag, run = all_baselines, "generate-baselines-structured@embedded-constrained"
    # What the condition adds to the checkpoint is one path: no other condition can be given tries beside its own.
    assert dag.path(run, "weights") == dag.root / "tries" / "embedded" / "eval"
    with pytest.raises(ArtifactError, match=r"nowhere"):
        dag.run(run, weights=tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"embedded\.json"):
        dag.run(run, weights=dag.path(run, "model_report"))
    values = yaml.safe_load(dag.params.read_text())
    values["generate"]["constrained"]["max_new_tokens"] = 2
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=r"generate\.constrained\.max_new_tokens: 2 is too short"):
        run_stage(params, run)


@pytest.mark.parametrize(("condition", "answers"), [("batch", 12), ("verbalized", 6)])
def test_packed_baselines_have_their_own_numbers_of_answers(all_baselines, condition, answers):
    dag = all_baselines
    _, per_prompt = evaluated(dag, condition)
    assert set(per_prompt["num_samples"]) == {answers}
    invalid = per_prompt[[f"invalid_{reason.value}" for reason in Invalid]].to_numpy().sum(axis=1)
    np.testing.assert_array_equal(invalid + per_prompt["num_valid"], answers)
    opened = pd.read_parquet(dag.evals("open", condition) / "per_prompt.parquet")
    assert set(opened["num_samples"]) == {answers} and opened["top_p_support_size"].isna().all()
