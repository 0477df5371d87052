"""Tiny random models, and their laws by plain forward passes."""

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from tests import stand_ins

SHAPE = stand_ins.SHAPE | {"vocab_size": 100}


def tiny(config, attention="sdpa", dtype=torch.float32, std=0.15):
    """A model with random weights, whose laws are sharp enough to tell apart."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, std)
    return model.to(dtype).eval()


@torch.inference_mode()
def plain_laws(model, ids) -> np.ndarray:
    """float64[T, V] log-probabilities after each token of a sequence, by one forward pass."""
    return torch.log_softmax(model(input_ids=torch.tensor([list(ids)])).logits[0].double(), dim=-1).numpy()
