"""Training resumes bit for bit, and says what is wrong; ``test_plain_loop`` has what it computes."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import get_peft_model_state_dict
from safetensors import safe_open

from pipeline.command import END_SIGNALS, Terminated, ends_between_steps
from pipeline.core.training.examples import anchor_example, hard_example, soft_example
from pipeline.core.training.objectives import anchor_loss, hard_target_loss, soft_target_loss
from pipeline.engines.training import fit as fit_module
from pipeline.engines.training.fit import Term, fit
from pipeline.errors import ConfigError
from tests.engines.training.worlds import SETTINGS, TRIE, adapter

STEPS = 7


def examples(step):
    return [soft_example([20, 21, 22 + i % 3], TRIE, np.random.default_rng([step, i])) for i in range(4)]


def replies(step):
    pairs = [([30, 31], [32, 33, 34]), ([35], [36, 37]), ([38, 39, 40], [41])]
    return [anchor_example(*pairs[(step + place) % 3], 32) for place in range(2)]


TERMS = [Term("targets", examples, soft_target_loss)]
ANCHORED = [*TERMS, Term("anchors", replies, anchor_loss, 2.0, compares=True)]


class Killed(Exception):
    pass


def run(model_config, path, terms=TERMS, *, settings=SETTINGS, dtype="float32", killed_after=None, number=None):
    """The adapter's weights under their PEFT names, and the log without times."""
    model = adapter(model_config, dtype=dtype)
    seen = []

    def on_step(record):
        seen.append(record["step"])
        if record["step"] == killed_after and number:
            os.kill(os.getpid(), number)
        elif record["step"] == killed_after:
            raise Killed

    more = {"seed": 1, "stream": ("tiny",), "pad_id": 0, "checkpoint": path, "on_step": on_step}
    with ends_between_steps() as is_ending:
        log = fit(model, terms, STEPS, settings, **more, is_ending=is_ending)
    assert seen == list(range(1, STEPS + 1))
    state = {name: value.detach().contiguous() for name, value in get_peft_model_state_dict(model).items()}
    return state, [{key: value for key, value in entry.items() if key != "seconds"} for entry in log]


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_ends_a_run_between_two_steps_and_loses_none(model_config, tmp_path, number):
    settings = replace(SETTINGS, checkpoint_every_steps=STEPS)
    with pytest.raises(Terminated):
        run(model_config, tmp_path / "state", settings=settings, killed_after=2, number=number)
    with safe_open(tmp_path / "state", "pt") as file:
        # The signal came behind step 2, when the run could only end with the next one.
        assert file.metadata()["step"] == "3"


@pytest.mark.parametrize(
    ("terms", "dtype", "killed_after"),
    [(TERMS, "float32", 1), (TERMS, "bfloat16", 5), (ANCHORED, "float32", 5)],
    ids=["before a checkpoint", "in bfloat16", "anchored"],
)
def test_a_killed_run_ends_with_the_same_adapter(model_config, tmp_path, terms, dtype, killed_after):
    expected, expected_log = run(model_config, tmp_path / "whole", terms, dtype=dtype)
    assert expected_log[-1]["loss"] < expected_log[0]["loss"]
    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", terms, dtype=dtype, killed_after=killed_after)
    if killed_after > SETTINGS.checkpoint_every_steps:
        with safe_open(tmp_path / "state", "pt") as file:
            moments = [file.get_tensor(name) for name in file.keys() if "exp_avg" in name]  # noqa: SIM118
        assert {value.dtype for value in moments} == {getattr(torch, dtype)}
    resumed, log = run(model_config, tmp_path / "state", terms, dtype=dtype)
    assert log == expected_log
    assert all(torch.equal(value, resumed[name]) for name, value in expected.items())


def test_a_truncated_checkpoint_is_ignored(model_config, tmp_path, capsys):
    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", killed_after=5)
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-50])
    run(model_config, tmp_path / "state")
    assert f"note: {tmp_path / 'state'} is not whole" in capsys.readouterr().out


def test_a_gradient_that_is_not_finite_ends_the_run(model_config, tmp_path):
    def diverging(logits, targets, temperature):
        # The loss is the same number; the gradient of the root at zero is infinite, times zero.
        return soft_target_loss(logits, targets, temperature) + (0 * logits).sum().sqrt()

    with pytest.raises(ConfigError, match=r"the gradient's norm is nan at step 1; lower train\.learning_rate"):
        run(model_config, tmp_path / "state", [Term("targets", examples, diverging)])


def test_a_pass_that_does_not_fit_the_gpu_says_what_to_change(model_config, tmp_path, monkeypatch):
    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr(fit_module, "backward_pass", full)
    with pytest.raises(ConfigError, match=r"pass of \d+ tokens does not fit .*allocate 9 GiB.*tokens_per_pass"):
        run(model_config, tmp_path / "state")


def test_too_long_an_example_is_an_error(model_config, tmp_path):
    long = [Term("targets", lambda step: [hard_example([20] * 8, [[30, 2]])], hard_target_loss)]
    with pytest.raises(ConfigError, match="max_length: 8 is too small for an example of 10 tokens"):
        run(model_config, tmp_path / "state", long, settings=replace(SETTINGS, max_length=8))


def test_an_attention_that_does_not_train_on_cpus_is_named(model_config, tmp_path):
    with pytest.raises(ConfigError, match="flex_attention trains on GPUs alone; set sdpa"):
        run(replace(model_config, attention="flex_attention"), tmp_path / "state")
