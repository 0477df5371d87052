"""The exact law of a reply's first token."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from pipeline.engines.loading.model import PositionLogits

# Head weights held in float32 at a time: 64 MiB.
WEIGHTS_PER_CHUNK = 1 << 24


def _float32_logits(head: torch.nn.Linear, states: torch.Tensor) -> Iterator[torch.Tensor]:
    """float32[P, C] logits of consecutive parts of the vocabulary, products and sums in float32."""
    states = states.float()
    rows = max(1, WEIGHTS_PER_CHUNK // head.in_features)
    for start in range(0, head.out_features, rows):
        logits = states @ head.weight[start : start + rows].float().T
        yield logits if head.bias is None else logits + head.bias[start : start + rows].float()


@torch.inference_mode()
def first_step_law(logits_at: PositionLogits, prompt_ids: Sequence[int], device: torch.device | str) -> np.ndarray:
    """Log-probabilities of the token after a request, normalised over the full vocabulary.

    A bfloat16 head rounds logits to 8 bits, which makes many tokens equally probable and moves the
    support size. The head's product is therefore done in float32 whatever the model's dtype; the
    hidden state behind it is what the model computes in its own. Where the head is not one linear
    map, its logits are taken as they are.

    Args:
        logits_at: The model, from ``pipeline.engines.loading.model.position_logits``.
        prompt_ids: Tokens of the request, chat template included, at least one.
        device: Where the inputs go.

    Returns:
        float32[V], nats; the normalisation is done in float64.
    """
    ids = torch.tensor([list(prompt_ids)], device=device)
    row, last = torch.zeros(1, dtype=torch.int64, device=device), torch.tensor([ids.shape[1] - 1], device=device)
    states = logits_at.states(ids, torch.ones_like(ids), row, last)
    head = logits_at.model.get_output_embeddings() if logits_at.gathers_hidden else None
    if isinstance(head, torch.nn.Linear):
        logits = torch.cat(list(_float32_logits(head, states)), dim=1)
    else:
        logits = logits_at.head(states).float()
    return torch.log_softmax(logits[0].cpu().double(), dim=-1).float().numpy()
