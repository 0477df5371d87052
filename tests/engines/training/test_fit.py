"""Training: learns, resumes bit for bit, does not depend on how sequences are packed, cut and batched."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import get_peft_model_state_dict
from safetensors import safe_open

from pipeline.core.training.examples import exact_example, hard_example, soft_example
from pipeline.core.training.objectives import hard_target_loss, soft_target_loss
from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import add_lora, load_model
from pipeline.engines.training import fit as fit_module
from pipeline.engines.training.fit import Checkpoint, FitSettings, Term, fit
from pipeline.errors import ConfigError

SETTINGS = FitSettings(
    learning_rate=5e-3,
    weight_decay=0.01,
    warmup_ratio=0.1,
    max_grad_norm=None,
    micro_batch_size=4,
    tokens_per_pass=None,
    max_length=32,
    temperature=1.0,
    checkpoint_every_steps=2,
)
TRIE = build_trie([[10], [11, 12], [11, 13]], np.array([0.5, 0.2, 0.3]), 2)
STEPS = 7


def examples(step):
    return [soft_example([20, 21, 22 + i % 3], TRIE, np.random.default_rng([step, i])) for i in range(4)]


def adapter(model_config, dropout=0.2, dtype="float32"):
    torch.manual_seed(0)
    base = load_model(model_config, device="cpu")
    # Larger (tied) embeddings: without them no adapter can make the random model's logits sharp.
    base.get_input_embeddings().weight.data.mul_(2.5)
    return add_lora(base, model_config, rank=4, alpha=8, dropout=dropout, dtype=dtype)


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
    steps=STEPS,
    dropout=0.2,
    dtype="float32",
    model=None,
):
    """``terms`` may depend on the model."""
    model = model or adapter(model_config, dropout, dtype)
    log = fit(
        model,
        terms(model) if callable(terms) else terms,
        steps,
        settings,
        seed=1,
        stream=("tiny", "soft"),
        pad_id=0,
        checkpoint=Checkpoint(path),
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


@pytest.fixture(scope="module")
def whole(model_config, tmp_path_factory):
    """Adapter and log of a run that is not killed."""
    return run(model_config, tmp_path_factory.mktemp("whole") / "state")


@pytest.mark.parametrize("killed_after", range(1, STEPS))
def test_a_killed_run_ends_with_the_same_adapter(model_config, tmp_path, whole, killed_after):
    expected, whole_log = whole

    def kill(record):
        if record["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        run(model_config, tmp_path / "state", on_step=kill)
    seen = []
    resumed, log = run(model_config, tmp_path / "state", on_step=lambda record: seen.append(record["step"]))
    assert seen == list(range(1, STEPS + 1))
    for name, value in expected.items():
        assert torch.equal(value, resumed[name]), name
    keys = ("step", "loss", "learning_rate", "grad_norm", "tokens", "sequences")
    assert [[entry[key] for key in keys] for entry in log] == [[entry[key] for key in keys] for entry in whole_log]


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


def test_a_checkpoint_that_cannot_be_read_is_not_replaced(model_config, tmp_path, monkeypatch):
    def refuse(path, framework):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "state").write_text("hours of work")
    monkeypatch.setattr(fit_module, "safe_open", refuse)
    with pytest.raises(PermissionError):
        run(model_config, tmp_path / "state")
    assert (tmp_path / "state").read_text() == "hours of work"


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
            checkpoint=Checkpoint(tmp_path / "d"),
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


def test_micro_batches_do_not_change_the_result(model_config, tmp_path):
    whole, _ = run(model_config, tmp_path / "a", dropout=0.0)
    split, _ = run(model_config, tmp_path / "b", dropout=0.0, settings=replace(SETTINGS, micro_batch_size=1))
    for name, value in whole.items():
        torch.testing.assert_close(value, split[name], rtol=2e-3, atol=2e-5)


def test_soft_loss_falls_to_nearly_zero(model_config, tmp_path):
    settings = replace(SETTINGS, learning_rate=2e-2, checkpoint_every_steps=1000)
    _, log = run(model_config, tmp_path / "s", settings=settings, steps=80, dropout=0.0)
    assert log[0]["loss"] > 3
    assert log[-1]["loss"] < 0.2


def test_hard_loss_falls_to_the_entropy(model_config, tmp_path):
    model = adapter(model_config, 0.0)

    def hard(step):
        paths = [TRIE.sample_path(np.random.default_rng([step, i]))[0] for i in range(16)]
        return [hard_example([20, 21], [path]) for path in paths]

    settings = replace(SETTINGS, learning_rate=2e-2, checkpoint_every_steps=1000, micro_batch_size=16)
    log = fit(
        model,
        [Term("targets", hard, hard_target_loss)],
        100,
        settings,
        seed=0,
        stream=("h",),
        pad_id=0,
        checkpoint=Checkpoint(tmp_path / "h"),
    )
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


PROMPTS = ([20, 21, 22], [23, 24], [25, 26, 27, 28])
BRANCHING = build_trie(
    [[10], [11], [10, 11], [10, 12], [11, 12, 13], [11, 12, 14], [15, 16, 17]],
    np.array([0.1, 0.2, 0.1, 0.15, 0.25, 0.1, 0.1]),
    2,
)


def soft_paths(packed):
    """Six paths behind each prompt, in one tree or apart."""
    rngs = [np.random.default_rng(i) for i in range(len(PROMPTS))]
    if packed:
        return [soft_example(prompt, BRANCHING, rng, 6) for prompt, rng in zip(PROMPTS, rngs, strict=True)]
    return [soft_example(p, BRANCHING, rng) for p, rng in zip(PROMPTS, rngs, strict=True) for _ in range(6)]


def hard_completions(packed):
    rng = np.random.default_rng(0)
    drawn = [(prompt, [BRANCHING.sample_path(rng)[0] for _ in range(6)]) for prompt in PROMPTS]
    if packed:
        return [hard_example(prompt, paths) for prompt, paths in drawn]
    return [hard_example(prompt, [path]) for prompt, paths in drawn for path in paths]


def exact_tries(packed=True):
    return [exact_example(prompt, BRANCHING) for prompt in PROMPTS]


def gradients(model_config, tmp_path, made, objective, **changes):
    """Loss and every LoRA gradient of a first step, and its record."""
    model = adapter(model_config, 0.0)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # zero at the start, which would make every gradient of A zero
            parameter.data.normal_(0, 0.05, generator=generator)
    found = {}
    clip = torch.nn.utils.clip_grad_norm_

    def record(parameters, *arguments):
        parameters = list(parameters)
        found.update(enumerate(parameter.grad.clone() for parameter in parameters))
        return clip(parameters, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", record)
        log = fit(
            model,
            [Term("targets", lambda step: made, objective)],
            1,
            replace(SETTINGS, **changes),
            seed=0,
            stream=("g",),
            pad_id=0,
            checkpoint=Checkpoint(tmp_path / "g"),
        )
    return log[0], found


def assert_same_step(found, expected):
    assert found[0]["loss"] == pytest.approx(expected[0]["loss"], rel=1e-5)
    assert len(found[1]) == len(expected[1]) == 2 * 7 * 2
    for index, gradient in expected[1].items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(found[1][index], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


@pytest.mark.parametrize(
    ("make", "objective"), [(soft_paths, soft_target_loss), (hard_completions, hard_target_loss)], ids=["soft", "hard"]
)
def test_packed_completions_are_the_completions_apart(model_config, tmp_path, make, objective):
    apart = gradients(model_config, tmp_path, make(False), objective, micro_batch_size=18)
    packed = gradients(model_config, tmp_path, make(True), objective, micro_batch_size=2)
    assert_same_step(packed, apart)
    assert packed[0]["sequences"] == apart[0]["sequences"] == 18
    assert packed[0]["tokens"] < apart[0]["tokens"] / 2


@pytest.mark.parametrize("make", [soft_paths, exact_tries])
def test_a_model_without_tree_attention_gets_sequences(model_config, tmp_path, monkeypatch, make):
    packed = gradients(model_config, tmp_path, make(True), soft_target_loss)
    monkeypatch.setattr(fit_module, "supports_tree_attention", lambda model: False)
    monkeypatch.setattr(fit_module, "tree_attention_mask", None)
    unpacked = gradients(model_config, tmp_path, make(True), soft_target_loss)
    assert_same_step(unpacked, packed)
    assert unpacked[0]["tokens"] > packed[0]["tokens"]


@pytest.mark.parametrize(
    ("make", "objective"), [(soft_paths, soft_target_loss), (hard_completions, hard_target_loss)], ids=["soft", "hard"]
)
def test_accumulated_gradients_are_those_of_the_whole_batch(model_config, tmp_path, make, objective):
    whole = gradients(model_config, tmp_path, make(False), objective, micro_batch_size=18)
    accumulated = gradients(model_config, tmp_path, make(False), objective, micro_batch_size=4)
    assert_same_step(accumulated, whole)
    assert accumulated[0]["tokens"] == whole[0]["tokens"]


@pytest.mark.parametrize("tokens", [8, 20, 33])
def test_passes_of_few_tokens_do_not_change_the_step(model_config, tmp_path, tokens):
    whole = gradients(model_config, tmp_path, exact_tries(), soft_target_loss)
    assert_same_step(gradients(model_config, tmp_path, exact_tries(), soft_target_loss, tokens_per_pass=tokens), whole)


def test_chunks_of_positions_do_not_change_the_step(model_config, tmp_path, monkeypatch):
    whole = gradients(model_config, tmp_path, exact_tries(), soft_target_loss)
    monkeypatch.setattr(fit_module, "LOGITS_PER_CHUNK", 300 * 4)
    sizes, chunked = [], fit_module.backward_in_chunks

    def spy(head, hidden, *arguments):
        sizes.append((len(hidden), arguments[3]))
        return chunked(head, hidden, *arguments)

    monkeypatch.setattr(fit_module, "backward_in_chunks", spy)
    assert_same_step(gradients(model_config, tmp_path, exact_tries(), soft_target_loss), whole)
    assert sizes and all(positions > 2 * chunk for positions, chunk in sizes)


def test_head_that_is_not_one_linear_map(model_config, tmp_path, monkeypatch):
    whole = gradients(model_config, tmp_path, soft_paths(True), soft_target_loss)
    monkeypatch.setattr(
        fit_module, "position_logits", lambda model: fit_module.PositionLogits(model.get_base_model(), False)
    )
    assert_same_step(gradients(model_config, tmp_path, soft_paths(True), soft_target_loss), whole)


def test_a_killed_run_on_trees_ends_with_the_same_adapter(model_config, tmp_path):
    def trees(step):
        return [soft_example(prompt, BRANCHING, np.random.default_rng([step, 1]), 4) for prompt in PROMPTS]

    def train(name, on_step=lambda record: None):
        model = adapter(model_config)
        fit(
            model,
            [Term("targets", trees, soft_target_loss)],
            5,
            replace(SETTINGS, micro_batch_size=2, tokens_per_pass=32),
            seed=1,
            stream=("t",),
            pad_id=0,
            checkpoint=Checkpoint(tmp_path / name),
            on_step=on_step,
        )
        return adapter_state(model)

    def kill(record):
        if record["step"] == 3:
            raise Killed

    whole = train("whole")
    with pytest.raises(Killed):
        train("killed", kill)
    for name, value in train("killed").items():
        assert torch.equal(value, whole[name]), name
