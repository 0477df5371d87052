"""Weights of adapters that are handed on."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.artifacts.adapters import WEIGHTS, copy_weights
from pipeline.errors import ArtifactError


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_handed_on_in_the_dtype_that_computes(tmp_path, dtype):
    source, output = tmp_path / "a", tmp_path / "output"
    source.mkdir()
    output.mkdir()
    save_file({f"layers.0.q.lora_{side}.weight": torch.randn(4, 6) for side in "AB"}, source / WEIGHTS)
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
