"""Training: learns, resumes bit for bit, does not depend on micro-batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.core.objectives import hard_target_loss, soft_target_loss
from pipeline.core.training_data import hard_example, soft_example
from pipeline.core.trie import build_trie
from pipeline.engines.fit import Checkpoint, FitSettings, adapter_state, fit
from pipeline.engines.model import add_lora, load_model
from pipeline.errors import ConfigError

SETTINGS = FitSettings(
    learning_rate=5e-3, weight_decay=0.01, warmup_ratio=0.1, max_grad_norm=None, micro_batch_size=4, max_length=32,
    temperature=1.0, checkpoint_every_steps=2,
)  # fmt: skip
TRIE = build_trie([[10], [11, 12], [11, 13]], np.array([0.5, 0.2, 0.3]), 2)
STEPS = 7


def examples(step):
    return [soft_example([20, 21, 22 + i % 3], TRIE, np.random.default_rng([step, i])) for i in range(4)]


def adapter(model_config, dropout=0.2):
    torch.manual_seed(0)
    base = load_model(model_config, device="cpu")
    # Larger (tied) embeddings: without them no adapter can make the random model's logits sharp.
    base.get_input_embeddings().weight.data.mul_(2.5)
    return add_lora(base, model_config, rank=4, alpha=8, dropout=dropout)


def run(model_config, path, *, settings=SETTINGS, on_step=lambda record: None, steps=STEPS, dropout=0.2):
    model = adapter(model_config, dropout)
    log = fit(
        model, examples, steps, soft_target_loss, settings, seed=1, stream=("tiny", "soft"), pad_id=0,
        checkpoint=Checkpoint(path, "run"), on_step=on_step,
    )  # fmt: skip
    return adapter_state(model), log


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_after", range(1, STEPS))
def test_a_killed_run_ends_with_the_same_adapter(model_config, tmp_path, killed_after):
    whole, whole_log = run(model_config, tmp_path / "whole")

    def kill(record):
        if record["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", on_step=kill)
    seen = []
    resumed, log = run(model_config, tmp_path / "state", on_step=lambda record: seen.append(record["step"]))
    assert seen == list(range(1, STEPS + 1))
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name
    keys = ("step", "loss", "learning_rate", "grad_norm", "tokens")
    assert [[entry[key] for key in keys] for entry in log] == [[entry[key] for key in keys] for entry in whole_log]


def test_a_checkpoint_of_another_run_is_ignored(model_config, tmp_path):
    whole, _ = run(model_config, tmp_path / "whole")
    model = adapter(model_config)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(parameters.values())
    Checkpoint(tmp_path / "state", "another run").save(5, parameters, optimizer, [])
    fresh, log = run(model_config, tmp_path / "state")
    assert len(log) == STEPS
    assert all(torch.equal(value, fresh[name]) for name, value in whole.items())


def test_a_truncated_checkpoint_is_ignored(model_config, tmp_path):
    def kill(record):
        if record["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", on_step=kill)
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-50])
    _, log = run(model_config, tmp_path / "state")
    assert len(log) == STEPS


def test_micro_batches_do_not_change_the_result(model_config, tmp_path):
    whole, _ = run(model_config, tmp_path / "a", dropout=0.0)
    split, _ = run(model_config, tmp_path / "b", dropout=0.0, settings=replace(SETTINGS, micro_batch_size=1))
    for name, value in whole.items():
        torch.testing.assert_close(value, split[name], rtol=2e-3, atol=2e-5)


def test_soft_loss_falls_to_nearly_zero(model_config, tmp_path):
    settings = replace(SETTINGS, learning_rate=1e-2, checkpoint_every_steps=1000)
    _, log = run(model_config, tmp_path / "s", settings=settings, steps=250, dropout=0.0)
    assert log[0]["loss"] > 3
    assert log[-1]["loss"] < 0.2


def test_hard_loss_falls_to_the_entropy(model_config, tmp_path):
    model = adapter(model_config, 0.0)

    def hard(step):
        paths = [TRIE.sample_path(np.random.default_rng([step, i]))[0] for i in range(16)]
        return [hard_example([20, 21], path) for path in paths]

    settings = replace(SETTINGS, learning_rate=1e-2, checkpoint_every_steps=1000, micro_batch_size=16)
    log = fit(
        model, hard, 200, hard_target_loss, settings, seed=0, stream=("h",), pad_id=0,
        checkpoint=Checkpoint(tmp_path / "h", "h"),
    )  # fmt: skip
    # Per sequence: the entropy of its law, 1.0297 nats, over two tokens ("10 $") or three.
    mean = np.mean([entry["loss"] for entry in log[-20:]])
    assert 0.3 < mean < 0.6 < log[0]["loss"]


def test_learning_rate_schedule_and_clipping(model_config, tmp_path):
    settings = replace(SETTINGS, warmup_ratio=0.3, max_grad_norm=1e-9)
    _, log = run(model_config, tmp_path / "c", settings=settings, steps=10)
    rates = [entry["learning_rate"] for entry in log]
    assert rates[0] == 0 and max(rates) == pytest.approx(5e-3) and rates.index(max(rates)) == 3
    assert rates[-1] < 0.1 * max(rates)
    assert all(entry["grad_norm"] > 1e-3 for entry in log)


def test_too_long_an_example_is_an_error(model_config, tmp_path):
    with pytest.raises(ConfigError, match="max_length: 4 is too small for an example of"):
        run(model_config, tmp_path / "l", settings=replace(SETTINGS, max_length=4))
