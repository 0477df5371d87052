"""First-step laws of open-ended random generation: their support and entropy (arXiv:2605.11845, Section 4.2)."""

import numpy as np

SUPPORT_MASS = 0.9
"""What the tokens of the support hold together."""
STORED_MASS = 0.9995
"""How much of a first-step law is kept."""


def support_size(probabilities: np.ndarray, mass: float) -> int:
    """Number of tokens, most probable first, whose float64 probabilities[K] sum to ``mass``, without tolerance. Raises
    ValueError where they do not sum to it."""
    cumulative = np.cumsum(np.sort(np.asarray(probabilities, dtype=np.float64))[::-1])
    reached = cumulative[-1] if len(cumulative) else 0.0
    if not reached >= mass:
        raise ValueError(f"the probabilities sum to {reached}, less than {mass}")
    return int(np.searchsorted(cumulative, mass, side="left")) + 1


def leading_tokens(log_probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fewest tokens that have STORED_MASS together, of float32[V] log-probabilities in nats: int32[K] ids, most
    probable first (equal ones by id), and float32[K] probabilities."""
    order = np.argsort(-log_probabilities, kind="stable").astype(np.int32)
    probabilities = np.exp(log_probabilities[order].astype(np.float64)).astype(np.float32)
    size = support_size(probabilities, STORED_MASS)
    return order[:size], probabilities[:size]


def law_entropy(log_probabilities: np.ndarray) -> float:
    """Entropy in nats, float64, of a law float[V] given by its log-probabilities."""
    finite = log_probabilities[np.isfinite(log_probabilities)].astype(np.float64)
    return float(-(np.exp(finite) * finite).sum())
