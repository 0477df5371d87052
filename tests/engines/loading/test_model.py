"""Loading: whole checkpoints only, adapters that take effect, logits at positions."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from peft import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

from pipeline.engines.loading.conditioned_model import load_adapter
from pipeline.engines.loading.model import add_lora, load_model, position_logits
from pipeline.errors import ModelError


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_file_is_named(model_config, tiny_model, tmp_path, name):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    (broken / name).unlink()
    with pytest.raises(ModelError, match=f"has no .*{name}"):
        load_model(replace(model_config, checkpoint=str(broken)))


@pytest.mark.parametrize("machine", ["bfloat16", "float32"])
def test_a_machine_that_emulates_bfloat16_says_so(model_config, monkeypatch, capsys, machine):
    monkeypatch.setattr("pipeline.engines.loading.model.machine_dtype", lambda: machine)
    load_model(replace(model_config, dtype="bfloat16"), device="cpu")
    assert ("dtype=auto" in capsys.readouterr().err) == (machine == "float32")


def test_float32_lora_weights_compute_as_the_adapter_does_beside_the_same_base(model_config, tmp_path):
    config = replace(model_config, dtype="bfloat16")
    adapted = add_lora(load_model(config, device="cpu"), config, rank=2, alpha=4, dropout=0.1).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(len(name)))
    adapted.save_pretrained(tmp_path)
    loaded = load_adapter(load_model(config, device="cpu"), tmp_path, [5, 6, 7])
    assert {value.dtype for value in loaded.parameters()} == {torch.bfloat16}
    ids = torch.arange(10, 34).reshape(2, 12)
    logits = adapted(ids).logits
    # Sums are rounded once in one place less.
    torch.testing.assert_close(logits, loaded(ids).logits, rtol=0.02, atol=0.02)
    logits.float().square().mean().backward()
    gradients = [value.grad for value in adapted.parameters() if value.requires_grad]
    assert {value.dtype for value in gradients} == {torch.float32} and all(value.any() for value in gradients)


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


def test_position_logits_fall_back_where_the_head_is_more_than_linear(model, monkeypatch):
    assert position_logits(model).gathers_hidden
    plain = type(model).forward

    def capped(self, *args, **kwargs):
        output = plain(self, *args, **kwargs)
        output.logits = 0.5 * torch.tanh(output.logits / 0.5) + 0.3
        return output

    monkeypatch.setattr(type(model), "forward", capped)
    assert not position_logits(model).gathers_hidden


@pytest.fixture
def gemma3(model_config, stand_ins):
    """Settings of Gemma 3 with a vision tower."""
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return replace(model_config, checkpoint=str(stand_ins["gemma3"]), lora_target_modules=attention)


def test_adapters_are_in_the_language_model_alone(gemma3, tmp_path):
    model = load_model(gemma3, device="cpu")
    assert any("vision_tower" in name and name.endswith("q_proj") for name, _ in model.named_modules())
    adapted = add_lora(model, gemma3, rank=2, alpha=4, dropout=0.0)
    trained = {name for name, value in adapted.named_parameters() if value.requires_grad}
    assert len(trained) == 2 * 4 * 2 and all(".language_model." in name for name in trained)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    adapted.save_pretrained(tmp_path)
    loaded = load_adapter(load_model(gemma3, device="cpu"), tmp_path, [5, 6, 7])
    assert get_peft_model_state_dict(loaded).keys() == get_peft_model_state_dict(adapted).keys()
    with pytest.raises(ModelError, match="lora_target_modules"):
        # The vision tower's name for the output projection.
        add_lora(
            load_model(gemma3, device="cpu"),
            replace(gemma3, lora_target_modules=["out_proj"]),
            rank=2,
            alpha=4,
            dropout=0.0,
        )


def test_weights_that_are_missing_are_named(model_config, stand_ins, tmp_path):
    broken = shutil.copytree(stand_ins["qwen3"], tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"no weights for model.layers.1.mlp.up_proj.weight \(1 missing\)"):
        load_model(replace(model_config, checkpoint=str(broken)), device="cpu")


EXPERTS = "model.layers.1.mlp.experts.down_proj"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_mxfp4_experts_are_loaded_as_full_weights(model_config, stand_ins, dtype):
    config = replace(model_config, checkpoint=str(stand_ins["gpt_oss"]), attention="eager", dtype=dtype)
    model = load_model(config, device="cpu")
    assert load_file(stand_ins["gpt_oss"] / "model.safetensors")[f"{EXPERTS}_blocks"].dtype == torch.uint8
    assert model.get_parameter(EXPERTS).shape == (4, 64, 32)
    assert {value.dtype for value in model.parameters()} == {getattr(torch, dtype)}
    adapted = add_lora(model, config, rank=2, alpha=4, dropout=0.0)
    assert all(value.dtype == torch.float32 for value in adapted.parameters() if value.requires_grad)


def test_other_quantisation_is_refused(model_config, stand_ins, tmp_path):
    broken = shutil.copytree(stand_ins["qwen3"], tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))
    with pytest.raises(ModelError, match="quantised by 'gptq'; only MXFP4"):
        load_model(replace(model_config, checkpoint=str(broken)), device="cpu")
