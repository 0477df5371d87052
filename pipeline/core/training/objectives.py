"""Training objectives at the supervised positions of a batch: the paper's two (arXiv:2605.11845, Eq. 2 to 4), and KL
from the base checkpoint. All are weighted sums in float32 over the full vocabulary."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

Objective = Callable[..., torch.Tensor]
"""(logits float[P, V], Targets, temperature) to a scalar; with ``reference``, a fourth argument: the base checkpoint's
logits float[P, V]."""


@dataclass(frozen=True)
class Targets:
    """What the model is trained towards at P supervised positions."""

    token_ids: torch.Tensor
    """int64[P, K], candidate next tokens, padded with 0."""
    probabilities: torch.Tensor
    """float32[P, K]; 0 marks padding."""
    weights: torch.Tensor
    """float32[P], share of each position in the loss of its optimiser step; they sum to 1 over a step."""

    def to(self, device: torch.device | str) -> "Targets":
        return Targets(self.token_ids.to(device), self.probabilities.to(device), self.weights.to(device))

    def split(self, positions: int) -> Iterator["Targets"]:
        parts = (tensor.split(positions) for tensor in (self.token_ids, self.probabilities, self.weights))
        return (Targets(*part) for part in zip(*parts, strict=True))


class _CandidateCrossEntropy(torch.autograd.Function):
    """``cross_entropy`` with its gradient written out, (sum(q) * softmax(z / tau) - q) / tau: one tensor of the size of
    the logits in the place of five."""

    @staticmethod
    def forward(ctx, logits, token_ids, probabilities, temperature):
        scaled = _scaled(logits, temperature)
        normaliser = torch.logsumexp(scaled, dim=1, keepdim=True)
        ctx.save_for_backward(logits, token_ids, probabilities, normaliser)
        ctx.temperature = temperature
        return (probabilities * (normaliser - scaled.gather(1, token_ids))).sum(dim=1)

    @staticmethod
    def backward(ctx, upstream):
        logits, token_ids, probabilities, normaliser = ctx.saved_tensors
        upstream = upstream[:, None] / ctx.temperature
        gradient = _scaled(logits, ctx.temperature) - normaliser
        gradient.exp_().mul_(upstream * probabilities.sum(dim=1, keepdim=True))
        gradient.scatter_add_(1, token_ids, -upstream * probabilities)
        return gradient.to(logits.dtype), None, None, None


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """float32 logits / temperature, without a copy where there is nothing to do."""
    return logits.float() if temperature == 1 else logits.float() / temperature


def cross_entropy(
    logits: torch.Tensor, token_ids: torch.Tensor, probabilities: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """float32[P], -sum_v q(v) log softmax(logits / temperature)(v) in nats over the full vocabulary, of float[P, V],
    int64[P, K] and float[P, K]."""
    return _CandidateCrossEntropy.apply(logits, token_ids, probabilities.float(), temperature)


def forward_kl(
    logits: torch.Tensor, token_ids: torch.Tensor, probabilities: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """KL(q || softmax(logits / temperature)) in nats at each position (Eq. 2), as ``cross_entropy``, less entropy."""
    entropy = -torch.xlogy(probabilities, probabilities).sum(dim=1)
    return cross_entropy(logits, token_ids, probabilities, temperature) - entropy


def soft_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 3: forward KL, weighted; one path's positions weigh 1 / (L + 1) each."""
    return (forward_kl(logits, targets.token_ids, targets.probabilities, temperature) * targets.weights).sum()


def hard_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 4 or Algorithm 2, line 14: cross-entropy of sampled tokens, weighted as ``hard_example`` says."""
    return (cross_entropy(logits, targets.token_ids, targets.probabilities, temperature) * targets.weights).sum()


def anchor_loss(logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor) -> torch.Tensor:
    """KL(base || model) over the full vocabulary, weighted; ``temperature`` is that of the targets, and not used."""
    base, model = reference.float().log_softmax(dim=1), logits.float().log_softmax(dim=1)
    return ((base.exp() * (base - model)).sum(dim=1) * targets.weights).sum()


def backward_in_chunks(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    targets: Targets,
    objective: Objective,
    temperature: float,
    positions_per_chunk: int,
    reference: Callable[[slice], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Add the gradients of ``objective(head(hidden), targets, temperature)``, some positions at a time, so that only
    their logits float[p, V] are held, then the gradient of float[P, H]; give the loss. ``reference`` gives the base
    checkpoint's logits at a slice of the positions."""

    total, gradients, start = torch.zeros((), device=hidden.device), [], 0
    for states, part in zip(
        hidden.detach().split(positions_per_chunk), targets.split(positions_per_chunk), strict=True
    ):
        states.requires_grad_()
        compared = () if reference is None else (reference(slice(start, start + len(states))),)
        loss = objective(head(states), part, temperature, *compared)
        start += len(states)
        loss.backward()
        total += loss.detach()
        gradients.append(states.grad)
    hidden.backward(torch.cat(gradients))
    return total
