"""The models that are measured: settings of ``experiment=laptop``, and checkpoints as a plain script loads them."""

from functools import cache

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from pipeline import PROJECT
from pipeline.compose import compose_params
from pipeline.config.params import Params, validate


@cache
def parameters() -> Params:
    """Those of the laptop's experiment, with both models."""
    return validate(compose_params(PROJECT / "conf", ["experiment=laptop", "+model@models.embedded=embedded"]))


def plain_model(name: str) -> PreTrainedModel:
    """The checkpoint in float32, by transformers alone."""
    return AutoModelForCausalLM.from_pretrained(parameters().models[name].checkpoint, dtype=torch.float32)
