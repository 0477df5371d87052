"""LoRA's linear layer as one function: PEFT's own module with its product and gradients written out."""

from typing import Any

import torch
from peft.tuners.lora import Linear


class _LoraProduct(torch.autograd.Function):
    """``x W^T + bias + scaling d A^T B^T`` of x and d float[N, I]; d is x itself (None) or x after dropout. In place,
    forwards and backwards, where separate operations make five more tensors of the output's size; and into the update,
    as a bfloat16 update that is added to a rounded product is lost where it is small."""

    @staticmethod
    def forward(ctx, x, dropped, weight, bias, a, b, scaling):
        inner = ((x if dropped is None else dropped) @ a.T).mul_(scaling)
        ctx.save_for_backward(x if dropped is None else dropped, weight, a, b, inner)
        ctx.scaling, ctx.drops = scaling, dropped is not None
        out = (inner @ b.T).addmm_(x, weight.T)
        return out if bias is None else out.add_(bias)

    @staticmethod
    def backward(ctx, upstream):
        values, weight, a, b, inner = ctx.saved_tensors
        through = (upstream @ b).mul_(ctx.scaling)
        of_a, of_b = through.T @ values, upstream.T @ inner
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = upstream @ weight if ctx.drops else (through @ a).addmm_(upstream, weight)
        return of_x, through @ a if ctx.drops else None, None, None, of_a, of_b, None


class LoraLinear(Linear):
    """PEFT's LoRA of a frozen linear map, which computes in the dtype of its input, whatever that of the adapter: PEFT
    would keep a float32 copy of each bfloat16 activation."""

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """float[..., I] to float[..., O]."""
        if self.disable_adapters or self.merged or arguments or options:
            return super().forward(x, *arguments, **options)
        (name,) = self.active_adapters
        dropout, base, flat = self.lora_dropout[name], self.get_base_layer(), x.reshape(-1, x.shape[-1])
        drops = isinstance(dropout, torch.nn.Dropout) and dropout.p > 0 and self.training
        a, b = (part[name].weight.to(x.dtype) for part in (self.lora_A, self.lora_B))
        out = _LoraProduct.apply(
            flat, dropout(flat) if drops else None, base.weight, base.bias, a, b, self.scaling[name]
        )
        return out.view(*x.shape[:-1], -1)
