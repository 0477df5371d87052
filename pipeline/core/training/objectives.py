"""Training objectives over gathered positions: the paper's two (arXiv:2605.11845, Eq. 2 to 4) and what keeps a model.

All take logits at the P supervised positions of a batch only and are a weighted sum over
them. Computation is in float32 over the full vocabulary, whose log-normaliser is the only
thing that is reduced over it: -sum_v q(v) log p(v) = sum_v q(v) * (logsumexp(z) - z(v)) needs the
logits z of the candidates and one number per position.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

Objective = Callable[..., torch.Tensor]
"""(logits float[P, V], Targets, temperature) to a scalar; with ``reference``, a fourth argument: the base checkpoint's
logits float[P, V]."""


@dataclass(frozen=True)
class Targets:
    """What is asked of the model at P supervised positions.

    Attributes:
        token_ids: int64[P, K], candidate next tokens, padded with 0.
        probabilities: float32[P, K], target probabilities; 0 marks padding.
        weights: float32[P], share of each position in the loss of its optimiser step; the
            shares of a step sum to 1.
    """

    token_ids: torch.Tensor
    probabilities: torch.Tensor
    weights: torch.Tensor

    def to(self, device: torch.device | str) -> "Targets":
        """The same targets on another device."""
        return Targets(self.token_ids.to(device), self.probabilities.to(device), self.weights.to(device))

    def split(self, positions: int) -> Iterator["Targets"]:
        """Consecutive targets of at most ``positions`` positions each."""
        parts = (tensor.split(positions) for tensor in (self.token_ids, self.probabilities, self.weights))
        return (Targets(*part) for part in zip(*parts, strict=True))


class _CandidateCrossEntropy(torch.autograd.Function):
    """``cross_entropy`` with its gradient written out.

    d/dz = (sum(q) * softmax(z / tau) - q) / tau takes one tensor of the size of the logits;
    differentiating through gather and logsumexp takes five.
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
    """-sum_v q(v) log softmax(logits / temperature)(v) in nats at each position.

    The model is normalised over its full vocabulary, so mass that it places outside the
    candidate tokens counts.

    Args:
        logits: float[P, V] of any dtype; computed in float32.
        token_ids: int64[P, K] candidates.
        probabilities: float[P, K], q; entries of 0 contribute nothing.
        temperature: tau of Eq. 2.

    Returns:
        float32[P].
    """
    return _CandidateCrossEntropy.apply(logits, token_ids, probabilities.float(), temperature)


def forward_kl(
    logits: torch.Tensor, token_ids: torch.Tensor, probabilities: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """KL(q || softmax(logits / temperature)) in nats at each position (Eq. 2): cross-entropy less entropy.

    Arguments and result as of ``cross_entropy``.
    """
    entropy = -torch.xlogy(probabilities, probabilities).sum(dim=1)
    return cross_entropy(logits, token_ids, probabilities, temperature) - entropy


def soft_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 3: forward KL, weighted; one path's positions weigh 1 / (L + 1) each."""
    return (forward_kl(logits, targets.token_ids, targets.probabilities, temperature) * targets.weights).sum()


def hard_target_loss(logits: torch.Tensor, targets: Targets, temperature: float = 1.0) -> torch.Tensor:
    """Eq. 4 or Algorithm 2, line 14: cross-entropy of sampled tokens, weighted as ``hard_example`` says.

    Where several completions share a prefix, the target is the distribution of their next tokens.
    """
    return (cross_entropy(logits, targets.token_ids, targets.probabilities, temperature) * targets.weights).sum()


def forward_anchor_loss(
    logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor
) -> torch.Tensor:
    """KL(base || model) over the full vocabulary, weighted; ``temperature`` is that of the targets, and not used here.

    Its gradient with respect to a logit is model less base, so that it vanishes where nothing was forgotten.
    """
    base = reference.float().log_softmax(dim=1)
    divergence = (base.exp() * (base - logits.float().log_softmax(dim=1))).sum(dim=1)
    return (divergence * targets.weights).sum()


def reverse_anchor_loss(
    logits: torch.Tensor, targets: Targets, temperature: float, reference: torch.Tensor
) -> torch.Tensor:
    """KL(model || base) over the full vocabulary, weighted; ``temperature`` is not used.

    On the model's own replies its expectation is the divergence of whole replies; how the replies' law depends on the
    weights is left out of the gradient.
    """
    own = logits.float().log_softmax(dim=1)
    divergence = (own.exp() * (own - reference.float().log_softmax(dim=1))).sum(dim=1)
    return (divergence * targets.weights).sum()


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


def backward_in_chunks(
    head: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    targets: Targets,
    objective: Objective,
    temperature: float,
    positions_per_chunk: int,
    reference: Callable[[slice], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Add the gradients of ``objective(head(hidden), targets, temperature)``, some positions at a time.

    The objective is a sum over positions, so each chunk's logits are turned into a gradient
    of the hidden states (and of the head's parameters, if they train) and freed before the
    next chunk's are computed: memory for logits is that of one chunk, and nothing is
    computed twice. One backward pass then takes the gradient of the hidden states on.

    Args:
        head: Maps float[N, H] to logits float[N, V].
        hidden: float[P, H], attached to the graph of the model's layers.
        targets: The P targets.
        objective: The loss.
        temperature: tau of Eq. 2.
        positions_per_chunk: Positions whose logits exist together.
        reference: The base checkpoint's logits float[p, V] at some of the positions, for an objective that takes them.

    Returns:
        The loss, a float32 scalar without graph.
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
