"""Loading: whole checkpoints only, adapters that take effect, logits at positions."""

import shutil
from dataclasses import replace

import pytest
import torch
from peft import get_peft_model_state_dict

from pipeline.engines.model import add_lora, load_adapter, load_model, load_tokenizer, position_logits, stop_ids
from pipeline.errors import ModelError


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_file_is_named(model_config, tiny_model, tmp_path, name):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    (broken / name).unlink()
    with pytest.raises(ModelError, match=f"has no .*{name}"):
        load_model(replace(model_config, checkpoint=str(broken)))


def test_missing_directory(model_config, tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        load_tokenizer(replace(model_config, checkpoint=str(tmp_path / "nowhere")))


def test_truncated_weights(model_config, tiny_model, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cannot load the model"):
        load_model(replace(model_config, checkpoint=str(broken)))


def test_unknown_lora_module(model, model_config):
    with pytest.raises(ModelError, match="lora_target_modules"):
        add_lora(model, replace(model_config, lora_target_modules=["qq_proj"]), rank=2, alpha=4, dropout=0)


def test_lora_weights_are_float32_on_a_bfloat16_base(model_config):
    base = load_model(replace(model_config, dtype="bfloat16"), device="cpu")
    adapted = add_lora(base, model_config, rank=2, alpha=4, dropout=0.1)
    trainable = {name: p for name, p in adapted.named_parameters() if p.requires_grad}
    assert len(trainable) == 2 * 7 * 2  # A and B of seven projections in two layers
    assert {p.dtype for p in trainable.values()} == {torch.float32}
    assert {p.dtype for p in adapted.parameters() if not p.requires_grad} == {torch.bfloat16}


def test_adapter_in_effect(model_config, tmp_path):
    adapted = add_lora(load_model(model_config, device="cpu"), model_config, rank=2, alpha=4, dropout=0)
    adapted.save_pretrained(tmp_path / "fresh")
    with pytest.raises(ModelError, match="does not change"):
        load_adapter(load_model(model_config, device="cpu"), tmp_path / "fresh", [5, 6, 7])
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    adapted.save_pretrained(tmp_path / "trained")
    loaded = load_adapter(load_model(model_config, device="cpu"), tmp_path / "trained", [5, 6, 7])
    for name, value in get_peft_model_state_dict(adapted).items():
        torch.testing.assert_close(get_peft_model_state_dict(loaded)[name], value, rtol=0, atol=0)
    (tmp_path / "trained" / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no adapter_model.safetensors"):
        load_adapter(load_model(model_config, device="cpu"), tmp_path / "trained", [5])


def test_position_logits_equal_the_full_forward_pass(model):
    ids = torch.randint(5, 250, (3, 7))
    mask = torch.ones_like(ids)
    rows, columns = torch.tensor([0, 0, 1, 2]), torch.tensor([2, 6, 3, 0])
    gathered = position_logits(model)
    assert gathered.gathers_hidden
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).logits[rows, columns]
        torch.testing.assert_close(gathered(ids, mask, rows, columns), expected, rtol=1e-5, atol=1e-5)
        states = gathered.states(ids, mask, rows, columns)
        assert states.shape == (4, model.config.hidden_size)
        torch.testing.assert_close(gathered.head(states[1:3]), expected[1:3], rtol=1e-5, atol=1e-5)


def test_position_logits_fall_back_where_the_head_is_more_than_linear(model, monkeypatch):
    plain = type(model).forward

    def capped(self, *args, **kwargs):
        output = plain(self, *args, **kwargs)
        output.logits = 0.5 * torch.tanh(output.logits / 0.5) + 0.3
        return output

    monkeypatch.setattr(type(model), "forward", capped)
    assert not position_logits(model).gathers_hidden


def test_stop_ids(model, tokenizer):
    assert stop_ids(model, tokenizer, "<|endoftext|>") == {tokenizer.eos_token_id, tokenizer.pad_token_id}
