"""The training stages with packed completions and whole tries, and what decides an adapter's identity."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from pipeline.config import load_params
from pipeline.errors import ConfigError
from pipeline.stages import train_hard, train_soft
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
    assert len(packed) == len(apart)
    assert [entry["sequences"] for entry in packed] == [entry["sequences"] for entry in apart]
    assert sum(entry["tokens"] for entry in packed) < 0.8 * sum(entry["tokens"] for entry in apart)


def test_exact_needs_explicit_tries(dag, tmp_path, monkeypatch):
    class Implicit:
        """Targets without arrays."""

    common = arguments(dag, tmp_path, soft__estimator="exact")
    monkeypatch.setattr(
        train_soft, "open_tries", lambda path: dict.fromkeys(_prompt_ids(common["prompts"]), Implicit())
    )
    with pytest.raises(ConfigError, match=r"train\.soft\.estimator: exact needs explicit tries.*'path' or 'paths'"):
        train_soft.main(**common, tries=dag.root / "tries" / "embedded" / "soft")


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
