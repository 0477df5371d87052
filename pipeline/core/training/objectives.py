"""Training objectives over gathered positions: the paper's two (arXiv:2605.11845, Eq. 2 to 4) and what keeps a model.

All take logits at the P supervised positions of a batch only and are a weighted sum over them, in float32 over the full
vocabulary, of which -sum_v q(v) log p(v) = sum_v q(v) * (logsumexp(z) - z(v)) needs the logits z of the candidates and
one number per position.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

Objective = Callable[..., torch.Tensor]
"""(logits float[P, V], Targets, temperature) to a scalar; with ``reference``, a fourth argument: the base checkpoint's
logits float[P, V]."""

LARGEST_CHANGE = 0.2
"""Of the logarithm of an anchor's weight in one step: forty steps span three orders of magnitude."""


@dataclass(frozen=True)
class Targets:
    """What is asked of the model at P supervised positions.

    Attributes:
        token_ids: int64[P, K], candidate next tokens, padded with 0.
        probabilities: float32[P, K], target probabilities; 0 marks padding.
        weights: float32[P], share of each position in the loss of its optimiser step; they sum to 1 over a step.
    """

    token_ids: torch.Tensor
    probabilities: torch.Tensor
    weights: torch.Tensor

    def to(self, device: torch.device | str) -> "Targets":
        return Targets(self.token_ids.to(device), self.probabilities.to(device), self.weights.to(device))

    def split(self, positions: int) -> Iterator["Targets"]:
        parts = (tensor.split(positions) for tensor in (self.token_ids, self.probabilities, self.weights))
        return (Targets(*part) for part in zip(*parts, strict=True))


class _CandidateCrossEntropy(torch.autograd.Function):
    """``cross_entropy`` with its gradient written out.

    d/dz = (sum(q) * softmax(z / tau) - q) / tau takes one tensor of the size of the logits; differentiating through
    gather and logsumexp takes five.
    """

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
    """float32[P], -sum_v q(v) log softmax(logits / temperature)(v) in nats, over the model's full vocabulary.

    ``logits`` are float[P, V] of any dtype; ``token_ids`` int64[P, K] and ``probabilities`` float[P, K] are q.
    """
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


def _divergence(logits: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(softmax(logits) || softmax(other)) in nats at each position, over the full vocabulary."""
    law, other = logits.float().log_softmax(dim=1), other.float().log_softmax(dim=1)
    return (law.exp() * (law - other)).sum(dim=1)


def forward_anchor_loss(
    logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor
) -> torch.Tensor:
    """KL(base || model), weighted; ``temperature`` is that of the targets, and not used here.

    Its gradient with respect to a logit is model less base, so that it vanishes where nothing was forgotten.
    """
    return (_divergence(reference, logits) * targets.weights).sum()


def reverse_anchor_loss(
    logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor
) -> torch.Tensor:
    """KL(model || base), weighted; ``temperature`` is not used.

    On the model's own replies its expectation is the divergence of whole replies; how the replies' law depends on the
    weights is left out of the gradient.
    """
    return (_divergence(logits, reference) * targets.weights).sum()


def with_outside_kl(objective: Objective, weight: float) -> Objective:
    """``objective`` plus ``weight`` times KL(base || model) among the tokens that no target names, each law
    renormalised over them: what a target leaves open stays as it was (arXiv:2605.29498)."""

    def loss(logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor) -> torch.Tensor:
        # Added up, because padding has the id and not the probability of a token.
        named = (
            torch.zeros_like(logits, dtype=torch.float32).scatter_add_(1, targets.token_ids, targets.probabilities) > 0
        )
        base = reference.float().masked_fill(named, -torch.inf).log_softmax(dim=1)
        own = logits.float().masked_fill(named, -torch.inf).log_softmax(dim=1)
        divergence = (base.exp() * (base - own).masked_fill(named, 0.0)).sum(dim=1)
        return objective(logits, targets, temperature) + weight * (divergence * targets.weights).sum()

    return loss


def next_weight(weight: float, divergence: float, budget: float, least: float) -> float:
    """An anchor's weight in the next step, by which its divergence is driven to its budget (both nats per token).

    Dual ascent on the logarithm, never below ``least``: before anything is learned the divergence says nothing.
    """
    excess = max(-1.0, min(1.0, divergence / budget - 1.0))
    return max(least, weight * math.exp(LARGEST_CHANGE * excess))


def backward_in_chunks(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    targets: Targets,
    objective: Objective,
    temperature: float,
    positions_per_chunk: int,
    reference: Callable[[slice], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Add the gradients of ``objective(head(hidden), targets, temperature)``, some positions at a time; give the loss.

    Each chunk's logits are turned into a gradient of the hidden states float[P, H] (and of the head's parameters, if
    they train) and freed before the next chunk's are computed. One backward pass then takes the gradient of the hidden
    states on. ``head`` maps float[N, H] to logits float[N, V]; ``reference`` gives the base checkpoint's logits
    float[p, V] at some of the positions, for an objective that takes them.
    """

    def loss_of(states: torch.Tensor, part: Targets, start: int) -> torch.Tensor:
        compared = () if reference is None else (reference(slice(start, start + len(states))),)
        return objective(head(states), part, temperature, *compared)

    if len(hidden) <= positions_per_chunk:
        loss = loss_of(hidden, targets, 0)
        loss.backward()
        return loss.detach()
    total, gradients, start = torch.zeros((), device=hidden.device), [], 0
    for states, part in zip(
        hidden.detach().split(positions_per_chunk), targets.split(positions_per_chunk), strict=True
    ):
        states.requires_grad_()
        loss = loss_of(states, part, start)
        start += len(states)
        loss.backward()
        total += loss.detach()
        gradients.append(states.grad)
    hidden.backward(torch.cat(gradients))
    return total
