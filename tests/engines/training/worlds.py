"""Tries, settings and an adapted tiny model that tests of training share."""

import numpy as np
import torch

from pipeline.config.training import HardConfig, SoftConfig, TrainConfig
from pipeline.core.tries.trie import build_trie
from pipeline.engines.loading.model import add_lora, load_model

SETTINGS = TrainConfig(
    lora_rank=4,
    lora_alpha=8.0,
    lora_dropout=0.2,
    global_batch_size=4,
    adapter_dtype="float32",
    soft=SoftConfig(epochs=1, samples_per_prompt=1, paths_per_prompt=1),
    hard=HardConfig(epochs=1, samples_per_prompt=1, loss_reduction="token", completions_per_prompt=1),
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
BRANCHING = build_trie(
    [[10], [11], [10, 11], [10, 12], [11, 12, 13], [11, 12, 14], [15, 16, 17]],
    np.array([0.1, 0.2, 0.1, 0.15, 0.25, 0.1, 0.1]),
    2,
)
PROMPTS = ([20, 21, 22], [23, 24], [25, 26, 27, 28])


def adapter(model_config, dropout=0.2, dtype="float32"):
    torch.manual_seed(0)
    base = load_model(model_config, device="cpu")
    # Larger (tied) embeddings: without them no adapter can make the random model's logits sharp.
    base.get_input_embeddings().weight.data.mul_(2.5)
    return add_lora(base, model_config, rank=4, alpha=8, dropout=dropout, dtype=dtype)
