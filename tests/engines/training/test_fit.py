"""Training resumes bit for bit, and says what is wrong; ``test_plain_loop`` has what it computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import get_peft_model_state_dict
from safetensors import safe_open

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


def adapter_state(model):
    """The adapter's weights under their PEFT names."""
    return {name: value.detach().cpu().contiguous() for name, value in get_peft_model_state_dict(model).items()}


TERMS = [Term("targets", examples, soft_target_loss)]


def run(
    model_config,
    path,
    terms=TERMS,
    *,
    settings=SETTINGS,
    on_step=lambda record: None,
    dtype="float32",
):
    model = adapter(model_config, dtype=dtype)
    log = fit(
        model,
        terms,
        STEPS,
        settings,
        seed=1,
        stream=("tiny", "soft"),
        pad_id=0,
        checkpoint=path,
        on_step=on_step,
    )
    return adapter_state(model), log


class Killed(Exception):
    pass


def test_adapter_and_optimiser_in_bfloat16(model_config, tmp_path, monkeypatch):
    whole, log = run(model_config, tmp_path / "whole.safetensors", dtype="bfloat16")
    assert {value.dtype for value in whole.values()} == {torch.bfloat16} and log[-1]["loss"] < log[0]["loss"]
    single, _ = run(model_config, tmp_path / "single.safetensors")
    assert any(not torch.equal(whole[name].float(), value) for name, value in single.items())

    def kill(record):
        if record["step"] == 5:
            raise Killed

    path = tmp_path / "killed.safetensors"
    with pytest.raises(Killed):
        run(model_config, path, on_step=kill, dtype="bfloat16")
    with safe_open(path, "pt") as file:
        moments = [file.get_tensor(name) for name in file.keys() if "exp_avg" in name]  # noqa: SIM118
    assert moments and {value.dtype for value in moments} == {torch.bfloat16}
    resumed, _ = run(model_config, path, dtype="bfloat16")
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


ANCHORED = [
    Term("soft", examples, soft_target_loss),
    Term("anchors", replies, anchor_loss, 2.0, compares=True),
]


@pytest.fixture(scope="module", params=[TERMS, ANCHORED], ids=["targets", "anchored"])
def whole(request, model_config, tmp_path_factory):
    """Terms, and adapter and log of a run with them that is not killed."""
    return request.param, *run(model_config, tmp_path_factory.mktemp("whole") / "state", request.param)


@pytest.mark.parametrize("killed_after", [1, 5])
def test_a_killed_run_ends_with_the_same_adapter(model_config, tmp_path, whole, killed_after):
    terms, expected, whole_log = whole

    def kill(record):
        if record["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", terms, on_step=kill)
    seen = []
    resumed, log = run(model_config, tmp_path / "state", terms, on_step=lambda record: seen.append(record["step"]))
    assert seen == list(range(1, STEPS + 1))
    for name, value in expected.items():
        assert torch.equal(value, resumed[name]), name
    drop = {"seconds"}
    assert [{k: v for k, v in entry.items() if k not in drop} for entry in log] == [
        {k: v for k, v in entry.items() if k not in drop} for entry in whole_log
    ]


def test_a_truncated_checkpoint_is_ignored(model_config, tmp_path, capsys):
    def kill(record):
        if record["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", on_step=kill)
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-50])
    _, log = run(model_config, tmp_path / "state")
    assert len(log) == STEPS
    assert f"note: {tmp_path / 'state'} is not whole" in capsys.readouterr().out


def test_a_gradient_that_is_not_finite_ends_the_run_before_it_reaches_a_weight(model_config, tmp_path):
    def diverging(logits, targets, temperature):
        # The loss is the same number; the gradient of the root at zero is infinite, times zero.
        return soft_target_loss(logits, targets, temperature) + (0 * logits).sum().sqrt()

    model = adapter(model_config)
    before = adapter_state(model)
    with pytest.raises(ConfigError, match=r"the gradient's norm is nan at step 1; lower train\.learning_rate"):
        fit(
            model,
            [Term("targets", examples, diverging)],
            1,
            SETTINGS,
            seed=1,
            stream=("d",),
            pad_id=0,
            checkpoint=tmp_path / "d",
        )
    assert all(torch.equal(value, before[name]) for name, value in adapter_state(model).items())


def test_a_pass_that_does_not_fit_the_gpu_says_what_to_change(model_config, tmp_path, monkeypatch):
    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr(fit_module, "backward_pass", full)
    with pytest.raises(ConfigError, match=r"pass of \d+ tokens does not fit .*allocate 9 GiB.*tokens_per_pass"):
        run(model_config, tmp_path / "state")
    monkeypatch.setattr(fit_module, "backward_pass", lambda *arguments: torch.zeros(1).view(-1, 2))
    with pytest.raises(RuntimeError, match="shape"):
        run(model_config, tmp_path / "state")


def test_too_long_an_example_is_an_error(model_config, tmp_path):
    with pytest.raises(ConfigError, match="max_length: 8 is too small for an example of 10 tokens"):
        long = [Term("targets", lambda step: [hard_example([20] * 8, [[30, 2]])], hard_target_loss)]
        run(model_config, tmp_path / "l", long, settings=replace(SETTINGS, max_length=8))
