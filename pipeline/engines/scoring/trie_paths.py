"""Logit-level evaluation: forward KL along sampled trie paths."""

from collections.abc import Sequence

import numpy as np
import torch

from pipeline.core.training.batches import collate
from pipeline.core.training.examples import soft_example
from pipeline.core.training.objectives import forward_kl
from pipeline.core.tries.trie import NextTokenTargets
from pipeline.engines.loading.model import PositionLogits


@torch.inference_mode()
def score_paths(
    logits_at: PositionLogits,
    prompt_ids: Sequence[int],
    trie: NextTokenTargets,
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
    batch = collate(examples, pad_id).to(device)
    logits = logits_at(batch.input_ids, batch.attention_mask, batch.rows, batch.columns)
    divergences = forward_kl(logits, batch.targets.token_ids, batch.targets.probabilities).double().cpu().numpy()
    return np.split(divergences, np.cumsum([len(example.nodes) for example in examples])[:-1])
