"""Logit-level evaluation: forward KL along sampled trie paths."""

from collections.abc import Sequence

import numpy as np
import torch

from pipeline.core.objectives import forward_kl
from pipeline.core.training_data import collate, soft_example
from pipeline.core.trie import Trie
from pipeline.engines.model import PositionLogits


@torch.inference_mode()
def score_paths(
    logits_at: PositionLogits,
    prompt_ids: Sequence[int],
    trie: Trie,
    num_paths: int,
    rng: np.random.Generator,
    pad_id: int,
    device: str,
) -> list[np.ndarray]:
    """KL(q || model) in nats at every prefix of ``num_paths`` paths y ~ P_Y.

    Returns:
        One float64[L + 1] per path, the empty prefix first.
    """
    examples = [soft_example(prompt_ids, trie, rng) for _ in range(num_paths)]
    batch = collate(examples, pad_id)
    logits = logits_at(
        batch.input_ids.to(device), batch.attention_mask.to(device), batch.rows.to(device), batch.columns.to(device)
    )
    targets = batch.targets.to(device)
    divergences = forward_kl(logits, targets.token_ids, targets.probabilities).double().cpu().numpy()
    return np.split(divergences, np.cumsum([len(example.completion) for example in examples])[:-1])
