"""The training stages with packed completions and whole tries, and what decides an adapter's identity."""

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json
from pipeline.artifacts.tries import TrieStore, open_tries
from pipeline.compose import compose_params
from pipeline.config.params import load_params, validate
from pipeline.core.prompts.structured import build_split
from pipeline.core.training.examples import training_steps
from pipeline.errors import BusyError, ConfigError
from pipeline.stages import build_tries, discretize, train_hard, train_soft
from pipeline.stages.adapter_training import training_parameters
from tests.conftest import ROOT
from tests.waiting import wait_until


def arguments(dag, tmp_path, **changes):
    """Arguments of both training stages, with ``train`` changed at dotted keys."""
    values = yaml.safe_load(dag.params.read_text())
    for key, value in changes.items():
        method, name = key.split("__")
        values["train"][method][name] = value
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump(values))
    return {
        **dag.model,
        "params": params,
        "prompts": dag.root / "prompts" / "train.parquet",
        "output": tmp_path / "adapter",
        "checkpoint": tmp_path / "unfinished",
    }


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
    from pipeline.artifacts.prompts import read_prompts

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
    distributed = replace(params.distributed, strategy="fsdp", num_processes=4)
    assert training_parameters(replace(params, distributed=distributed), "embedded", "soft") == soft


@pytest.mark.parametrize("distributed", ["single", "ddp_4", "fsdp_4"])
def test_the_papers_settings_give_its_numbers_of_steps(distributed):
    values = compose_params(ROOT / "conf", ["experiment=paper", f"distributed={distributed}"])
    del values["dag"]
    params = validate(values)
    families = [prompt.family for prompt in build_split("train")]
    assert len(families) == 1988
    for method, expected in (("soft", 189), ("hard", 1988)):
        budget = getattr(params.train, method)
        steps = training_steps(
            families, budget.epochs, budget.samples_per_prompt, params.train.global_batch_size, params.seed, "m", method
        )
        assert len(steps) == expected
        # Every prompt as often as asked for, and each of four GPUs a pass of eight, as in the paper.
        counts = Counter(draw.prompt_index for step in steps for draw in step)
        assert set(counts.values()) == {budget.epochs * budget.samples_per_prompt} and len(counts) == 1988
        assert len(steps[0]) == 4 * params.train.micro_batch_size == 32


def test_a_step_must_have_a_pass_for_each_process(dag, tmp_path):
    common = arguments(dag, tmp_path)
    distribute(common["params"], "ddp", 3)
    with pytest.raises(ConfigError, match=r"micro_batch_size 2 makes 2 passes of a step of 4 .* 3; at most 1 is allow"):
        train_soft.main(**common, tries=dag.root / "tries" / "embedded" / "soft")


def test_a_second_run_on_the_same_checkpoint_is_refused(dag, tmp_path):
    common = arguments(dag, tmp_path)
    with exclusive(common["checkpoint"], "another run"), pytest.raises(BusyError, match="train_soft embedded"):
        train_soft.main(**common, tries=dag.root / "tries" / "embedded" / "soft")
    assert not (tmp_path / "adapter").exists()


def distribute(path, strategy, num_processes):
    """Set ``distributed`` in a params.yaml."""
    values = yaml.safe_load(path.read_text())
    values["distributed"] = {"strategy": strategy, "num_processes": num_processes}
    path.write_text(yaml.safe_dump(values))


def launch(common, targets):
    """Start train_hard from the command line, as DVC does."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**common, "targets": targets}.items()]
    return subprocess.Popen([sys.executable, "-m", "pipeline.stages.train_hard", *options], cwd=ROOT)


def test_processes_that_are_killed_end_and_are_continued_by_another_number(dag, tmp_path):
    targets = dag.root / "output_spaces" / "hard.parquet"
    common = arguments(dag, tmp_path, hard__epochs=20)
    whole = {**common, "output": tmp_path / "whole", "checkpoint": tmp_path / "whole_unfinished"}
    train_hard.main(**whole, targets=targets)

    state = common["checkpoint"] / "state.safetensors"
    distribute(common["params"], "fsdp", 2)
    killed = launch(common, targets)
    wait_until(state.exists, killed)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert state.exists() and not (tmp_path / "adapter").exists()

    def free():
        try:
            with exclusive(common["checkpoint"], "test"):
                return True
        except BusyError:
            return False

    # Without their launcher the processes end, and leave what they had to others.
    wait_until(free)
    distribute(common["params"], "single", 1)
    train_hard.main(**common, targets=targets)
    assert not state.exists()
    assert len(read_log(tmp_path)) == len((tmp_path / "whole" / "train_log.jsonl").read_text().splitlines()) == 100
    found, expected = (read_adapter(tmp_path / name) for name in ("adapter", "whole"))
    # Processes with other numbers of threads round otherwise, and Adam's division makes 3e-4 of that in a hundred
    # steps; a step left out or taken twice makes 5e-3, a lost optimiser state 6e-2.
    assert torch.linalg.vector_norm(found - expected) < 1e-3 * torch.linalg.vector_norm(expected)


def read_adapter(directory):
    """All weights of an adapter in one vector."""
    tensors = load_file(directory / "adapter_model.safetensors")
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])
