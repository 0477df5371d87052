"""The training stages with packed completions and whole tries, and what decides an adapter's identity."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from pipeline.artifacts import TrieStore, open_tries, read_json
from pipeline.config import load_params
from pipeline.errors import ConfigError
from pipeline.stages import build_tries, discretize, train_hard, train_soft
from pipeline.stages.adapter_training import training_parameters


def arguments(dag, tmp_path, **changes):
    """Arguments of both training stages, with ``train`` changed at dotted keys."""
    values = yaml.safe_load(dag.params.read_text())
    for key, value in changes.items():
        method, name = key.split("__")
        values["train"][method][name] = value
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))
    return {
        **dag.model, "params": params, "prompts": dag.root / "prompts" / "train.parquet",
        "output": tmp_path / "adapter", "checkpoint": tmp_path / "unfinished",
    }  # fmt: skip


def read_log(tmp_path):
    return [json.loads(line) for line in (tmp_path / "adapter" / "train_log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("estimator", "sequences"), [("path", 4), ("paths", 12), ("exact", None)])
def test_soft_estimators(dag, tmp_path, estimator, sequences):
    common = arguments(dag, tmp_path, soft__epochs=1, soft__estimator=estimator, soft__paths_per_prompt=3)
    train_soft.main(**common, tries=dag.root / "tries" / "embedded" / "soft")
    log = read_log(tmp_path)
    assert all(np.isfinite(entry["loss"]) for entry in log)
    if sequences is not None:
        assert log[0]["sequences"] == sequences
    else:
        assert log[0]["sequences"] > 20


def test_packed_completions(dag, tmp_path):
    common = arguments(dag, tmp_path, hard__completions_per_prompt=2)
    train_hard.main(**common, targets=dag.root / "output_spaces" / "hard.parquet")
    apart = dag.root / "adapters" / "embedded" / "hard" / "train_log.jsonl"
    apart = [json.loads(line) for line in apart.read_text().splitlines()]
    packed = read_log(tmp_path)
    # A step has as many prompts as before, each with two strings behind it.
    assert len(packed) == -(-len(_prompt_ids(common["prompts"])) // 4) < len(apart)
    assert sum(entry["sequences"] for entry in packed) == sum(entry["sequences"] for entry in apart)
    assert sum(entry["tokens"] for entry in packed) < 0.8 * sum(entry["tokens"] for entry in apart)


def test_targets_without_bins(dag, tmp_path):
    params = tmp_path / "params.yaml"
    values = yaml.safe_load(dag.params.read_text())
    for method in ("soft", "hard"):
        values["discretize"][method]["max_bins"] = None
    params.write_text(yaml.safe_dump(values))
    prompts, tries = dag.root / "prompts" / "train.parquet", tmp_path / "tries"
    with pytest.raises(ConfigError, match=r"discretize\.soft\.max_bins is null"):
        discretize.main(params, "soft", [prompts], tmp_path / "s.parquet")
    model = {**dag.model, "params": params}
    build_tries.main(**model, space="soft", source=prompts, output=tries)
    store, explicit = open_tries(tries), TrieStore(dag.root / "tries" / "embedded" / "soft")
    assert list(store) == list(explicit) and store.terminator == explicit.terminator
    common = {**model, "prompts": prompts, "checkpoint": tmp_path / "checkpoint"}
    train_soft.main(**common, tries=tries, output=tmp_path / "soft")
    train_hard.main(**common, targets=prompts, output=tmp_path / "hard")
    for method in ("soft", "hard"):
        trained = (tmp_path / method / "adapter_model.safetensors").read_bytes()
        assert trained != (dag.root / "adapters" / "embedded" / method / "adapter_model.safetensors").read_bytes()
    assert read_json(tmp_path / "hard" / "provenance.json")["parameters"]["num_decimals"] == 2
    write = yaml.safe_load(params.read_text())
    write["train"]["soft"]["estimator"] = "exact"
    params.write_text(yaml.safe_dump(write))
    with pytest.raises(ConfigError, match=r"train\.soft\.estimator: exact needs explicit tries"):
        train_soft.main(**common, tries=tries, output=tmp_path / "soft")


def _prompt_ids(path):
    from pipeline.artifacts import read_prompts

    return [prompt.prompt_id for prompt in read_prompts(path)]


def test_identity_of_an_adapter(dag):
    params = load_params(dag.params)
    soft = training_parameters(params, "embedded", "soft")

    def changed(**changes):
        return training_parameters(replace(params, train=replace(params.train, **changes)), "embedded", "soft")

    assert changed(tokens_per_pass=1024, checkpoint_every_steps=7) == soft
    assert changed(hard=replace(params.train.hard, epochs=9)) == soft
    assert changed(soft=replace(params.train.soft, estimator="exact")) != soft
    assert changed(learning_rate=0.1) != soft
