"""The two training objectives (arXiv:2605.11845, Eq. 2 to 4), over gathered positions.

Both take logits at the P supervised positions of a batch only, compute in float32 over
the full vocabulary, and weigh every sequence alike: the mean over a sequence's positions,
then the mean over sequences.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Targets:
    """What is asked of the model at P supervised positions.

    Attributes:
        token_ids: int64[P, K], candidate next tokens, padded with 0.
        probabilities: float32[P, K], target probabilities; 0 marks padding.
        weights: float32[P], sums to 1: one over (length of the sequence * sequences).
    """

    token_ids: torch.Tensor
    probabilities: torch.Tensor
    weights: torch.Tensor

    def to(self, device: torch.device | str) -> "Targets":
        """The same targets on another device."""
        return Targets(self.token_ids.to(device), self.probabilities.to(device), self.weights.to(device))


def forward_kl(
    logits: torch.Tensor, token_ids: torch.Tensor, probabilities: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """KL(q || softmax(logits / temperature)) in nats at each position (Eq. 2).

    The model is normalised over its full vocabulary, so mass that it places outside the
    candidate tokens counts.

    Args:
        logits: float[P, V] of any dtype; computed in float32.
        token_ids: int64[P, K] candidates.
        probabilities: float[P, K]; entries of 0 contribute nothing.
        temperature: tau of Eq. 2.

    Returns:
        float32[P].
    """
    logits = logits.float() / temperature
    log_model = logits.gather(1, token_ids) - torch.logsumexp(logits, dim=1, keepdim=True)
    probabilities = probabilities.float()
    return (torch.xlogy(probabilities, probabilities) - probabilities * log_model).sum(dim=1)


def soft_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 3: forward KL averaged over the L + 1 prefixes of each sampled path, then over paths."""
    return (forward_kl(logits, targets.token_ids, targets.probabilities, temperature) * targets.weights).sum()


def hard_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 4: cross-entropy averaged over the tokens of each sampled completion, then over completions.

    ``targets.token_ids`` is int64[P, 1]: the sampled token.
    """
    losses = functional.cross_entropy(logits.float() / temperature, targets.token_ids[:, 0], reduction="none")
    return (losses * targets.weights).sum()
