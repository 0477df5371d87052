"""The training stages without bins, their distance, and several processes that are killed and continued."""

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipeline.artifacts.locks import exclusive
from pipeline.artifacts.storage import read_json
from pipeline.artifacts.tries import TrieStore, open_tries
from pipeline.axes.structured.wasserstein import law_draws
from pipeline.config.params import load_params
from pipeline.core.prompts.structured import build_split
from pipeline.dag.execution import find_run
from pipeline.dag.stages import STAGES
from pipeline.errors import BusyError, ConfigError
from pipeline.stages.training_distance import distance_while_training
from tests.composition import write_changed
from tests.conftest import ROOT
from tests.forked import ForkedModule
from tests.stages.conftest import run_stage
from tests.waiting import wait_until


def read_log(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "train_log.jsonl").read_text().splitlines()]


def weights(directory: Path) -> bytes:
    return (directory / "adapter_model.safetensors").read_bytes()


def test_targets_without_bins(dag, tmp_path):
    without = {f"discretize__{method}__max_bins": None for method in ("soft", "hard")}
    params = write_changed(dag.params, tmp_path / "params.yaml", **without)
    # Nothing is to be made then: targets follow from the laws in the table of prompts.
    with pytest.raises(ConfigError, match="discretize has no run --space soft: there are --space eval$"):
        find_run([STAGES["discretize"], STAGES["discretize-eval"]], load_params(params), {"space": "soft"})
    tries = tmp_path / "tries"
    built = run_stage(params, "build-tries@embedded-soft", output=tries)
    assert built.paths["source"] == dag.root / "prompts" / "train.parquet"
    store, explicit = open_tries(tries), TrieStore(dag.path("train-soft@embedded", "tries"))
    assert list(store) == list(explicit)
    run_stage(params, "train-soft@embedded", tries=tries, output=tmp_path / "soft")
    hard = run_stage(params, "train-hard@embedded", output=tmp_path / "hard")
    assert hard.paths["hard_targets"] == dag.root / "prompts" / "train.parquet"
    for method in ("soft", "hard"):
        assert weights(tmp_path / method) != weights(dag.path(f"train-{method}@embedded"))
    parameters = read_json(tmp_path / "hard" / "provenance.json")["parameters"]
    assert parameters["discretize.hard.num_decimals"] == 2 and parameters["discretize.hard.max_bins"] is None


def test_a_step_must_have_a_pass_for_each_process(dag, tmp_path):
    distributed = {"strategy": "ddp", "num_processes": 3}
    params = write_changed(dag.params, tmp_path / "params.yaml", distributed=distributed)
    with pytest.raises(ConfigError, match=r"micro_batch_size 2 makes 2 passes of a step of 4 .* 3; at most 1 is allow"):
        run_stage(params, "train-soft@embedded", output=tmp_path / "adapter")


class KnownSampler:
    """Stands for the model: answers of each prompt's law, and to the last half of the prompts no number."""

    def sample(self, requests):
        for place, request in enumerate(requests):
            prompt, size = PROMPTS[request.key], len(request.seeds)
            drawn = law_draws(prompt.law, (1, size), np.random.default_rng(place))[0]
            texts = [f"{value:.9g}" for value in drawn] if place < len(requests) // 2 else ["no number"] * size
            yield [SimpleNamespace(key=request.key, generation=SimpleNamespace(text=text)) for text in texts]


PROMPTS = {prompt.prompt_id: prompt for prompt in build_split("train", prompts_per_family=5)}


def test_the_distance_while_training_is_of_all_answers(monkeypatch):
    monkeypatch.setattr("pipeline.stages.training_distance.TransformersEngine", lambda *_: KnownSampler())
    measure = distance_while_training(torch.nn.Identity(), None, set(), [*PROMPTS.values()], lambda text: [1], 40, 0)
    assert [step for step in range(1, 41) if measure(step)] == list(range(4, 41, 4))
    (distance,) = measure(40).values()
    # A perfect sampler's is about 0.05 at 32 answers, and an invalid answer's 1.
    assert 0.51 < distance < 0.55


def launch(params, output):
    """Start train_hard from the command line, as DVC does, with an output of its own."""
    options = ["--model", "embedded", "--method", "hard", "--params", str(params), "--output", str(output)]
    return ForkedModule(["pipeline.stages.train_hard", *options], ROOT)


def test_processes_that_are_killed_end_and_are_continued_by_another_number(dag, tmp_path):
    params = write_changed(dag.params, tmp_path / "params.yaml", train__hard__epochs=20)
    unfinished = run_stage(params, "train-hard@embedded", output=tmp_path / "whole").unfinished

    state = unfinished / "state.safetensors"
    write_changed(params, params, distributed={"strategy": "fsdp", "num_processes": 2})
    killed = launch(params, tmp_path / "adapter")
    wait_until(state.exists, killed)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert state.exists() and not (tmp_path / "adapter").exists()

    def free():
        try:
            with exclusive(unfinished.parent, "test"):
                return True
        except BusyError:
            return False

    # Without their launcher the processes end, and leave what they had to others.
    wait_until(free)
    write_changed(params, params, distributed={"strategy": "single", "num_processes": 1})
    run_stage(params, "train-hard@embedded", output=tmp_path / "adapter")
    assert not state.exists()
    assert len(read_log(tmp_path / "adapter")) == len(read_log(tmp_path / "whole")) == 100
    found, expected = (read_adapter(tmp_path / name) for name in ("adapter", "whole"))
    # Processes with other numbers of threads round otherwise, and Adam's division makes 3e-4 of that in a hundred
    # steps; a step left out or taken twice makes 5e-3, a lost optimiser state 6e-2.
    assert torch.linalg.vector_norm(found - expected) < 1e-3 * torch.linalg.vector_norm(expected)


def read_adapter(directory):
    """All weights of an adapter in one vector."""
    tensors = load_file(directory / "adapter_model.safetensors")
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])
