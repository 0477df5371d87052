"""Adapters that are added up, against the sum of their updates."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.artifacts.adapters import CONFIG, WEIGHTS, copy_weights, merge_adapters
from pipeline.errors import ArtifactError


def adapter(directory, rank, alpha, modules=("q", "v"), dtype=torch.float32):
    directory.mkdir()
    torch.manual_seed(rank)
    tensors = {}
    for name in modules:
        tensors[f"layers.0.{name}.lora_A.weight"] = torch.randn(rank, 6).to(dtype)
        tensors[f"layers.0.{name}.lora_B.weight"] = torch.randn(5, rank).to(dtype)
    save_file(tensors, directory / WEIGHTS)
    (directory / CONFIG).write_text(json.dumps({"r": rank, "lora_alpha": alpha, "target_modules": list(modules)}))
    return directory


def update(directory, name):
    config, tensors = json.loads((directory / CONFIG).read_text()), load_file(directory / WEIGHTS)
    a, b = (tensors[f"layers.0.{name}.lora_{side}.weight"].double() for side in "AB")
    return config["lora_alpha"] / config["r"] * b @ a


@pytest.mark.parametrize("weights", [(0.5, 0.5), (1.5, 0.0), (0.25, 2.0)])
def test_the_update_is_the_weighted_sum(tmp_path, weights):
    sources = [adapter(tmp_path / "a", 4, 8), adapter(tmp_path / "b", 3, 32, dtype=torch.bfloat16)]
    (tmp_path / "merged").mkdir()
    merge_adapters(list(zip(sources, weights, strict=True)), tmp_path / "merged")
    for name in ("q", "v"):
        expected = sum(weight * update(source, name) for source, weight in zip(sources, weights, strict=True))
        torch.testing.assert_close(update(tmp_path / "merged", name), expected, rtol=1e-5, atol=1e-5)
    config = json.loads((tmp_path / "merged" / CONFIG).read_text())
    assert config["r"] == sum(rank for rank, weight in zip((4, 3), weights, strict=True) if weight)
    assert config["target_modules"] == ["q", "v"]


def test_what_cannot_be_added_up_is_named(tmp_path):
    first, second = adapter(tmp_path / "a", 4, 8), adapter(tmp_path / "b", 4, 8, modules=("q",))
    with pytest.raises(ArtifactError, match=r"b and .*a have LoRA weights of different modules"):
        merge_adapters([(first, 0.5), (second, 0.5)], tmp_path)
    (second / WEIGHTS).write_bytes(b"short")
    with pytest.raises(ArtifactError, match=r"cannot read the adapter .*b: "):
        merge_adapters([(first, 0.5), (second, 0.5)], tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_handed_on_in_the_dtype_that_computes(tmp_path, dtype):
    source, output = adapter(tmp_path / "a", 4, 8), tmp_path / "output"
    output.mkdir()
    copy_weights(source, output, str(dtype).removeprefix("torch."))
    found = load_file(output / WEIGHTS)
    assert found.keys() == load_file(source / WEIGHTS).keys()
    for name, tensor in load_file(source / WEIGHTS).items():
        assert found[name].dtype == dtype and torch.equal(found[name], tensor.to(dtype))
    if dtype == torch.float32:
        assert (output / WEIGHTS).read_bytes() == (source / WEIGHTS).read_bytes()
    (source / WEIGHTS).write_bytes(b"short")
    with pytest.raises(ArtifactError, match=r"cannot read the adapter .*a: "):
        copy_weights(source, output, "bfloat16")
