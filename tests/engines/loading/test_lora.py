"""The fused linear layer computes what PEFT's own modules do."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from pipeline.engines.loading.lora import LoraLinear


def adapted(dropout, fused):
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 7, bias=False))
    lora = LoraConfig(r=3, lora_alpha=5, lora_dropout=dropout, target_modules=["0", "2"])
    if fused:
        lora._register_custom_module({torch.nn.Linear: LoraLinear})
    model = get_peft_model(base, lora)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(len(name)))
    return model.train()


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_outputs_and_gradients_are_those_of_peft(dropout):
    seen = []
    for fused in (False, True):
        model = adapted(dropout, fused).double()  # float32 shows in which order a processor sums
        values = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
        torch.manual_seed(7)
        out = model(values)
        out.square().sum().backward()
        with torch.no_grad(), model.disable_adapter():
            without = model(values)
        gradients = [value.grad for value in model.parameters() if value.requires_grad]
        assert sum(isinstance(module, LoraLinear) for module in model.modules()) == 2 * fused
        seen.append([out, without, model.eval()(values), values.grad, *gradients])
    for own, theirs in zip(*seen, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-10, atol=1e-12)


def test_a_bfloat16_update_smaller_than_the_product_s_rounding_is_not_lost():
    # An eighth of bfloat16's steps between 1 and 2: the mean of many outputs shows it, as one in eight is rounded up.
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(8, 8192, bias=False))
    lora = LoraConfig(r=1, lora_alpha=1, target_modules=["0"])
    lora._register_custom_module({torch.nn.Linear: LoraLinear})
    torch.nn.init.uniform_(base[0].weight, 1 / 8, 2 / 8)
    model, update = get_peft_model(base, lora).to(torch.bfloat16), 2.0**-10
    module = model.base_model.model[0]
    torch.nn.init.constant_(module.lora_A["default"].weight, 1 / 8)
    change = []
    for value in (0.0, update):
        torch.nn.init.constant_(module.lora_B["default"].weight, value)
        change.append(model(torch.ones(1, 8, dtype=torch.bfloat16)).float().mean().item())
    assert change[1] - change[0] == pytest.approx(update, rel=0.2)
