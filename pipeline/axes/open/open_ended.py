"""Metrics of open-ended random generation (arXiv:2605.11845, Section 4.2), and effective answers, which are ours."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pipeline.core.language.diversity import answer_diversity
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text import TextPrompt

SUPPORT_MASS = 0.9
"""What the tokens of the support hold together."""
STORED_MASS = 0.9995
"""How much of a first-step law is kept."""


def support_size(probabilities: np.ndarray, mass: float) -> int:
    """Number of tokens, most probable first, whose probabilities sum to at least ``mass``.

    Sums are float64 over probabilities float[K] as stored (float32), without tolerance, in any order. Raises ValueError
    where they do not sum to it.
    """
    cumulative = np.cumsum(np.sort(np.asarray(probabilities, dtype=np.float64))[::-1])
    reached = cumulative[-1] if len(cumulative) else 0.0
    if not reached >= mass:
        raise ValueError(f"the probabilities sum to {reached}, less than {mass}")
    return int(np.searchsorted(cumulative, mass, side="left")) + 1


def leading_tokens(log_probabilities: np.ndarray, mass: float = STORED_MASS) -> tuple[np.ndarray, np.ndarray]:
    """The fewest tokens that have ``mass`` together, of float32[V] log-probabilities in nats.

    Returns int32[K] token ids, most probable first (equal ones by id), and float32[K] probabilities.
    """
    order = np.argsort(-log_probabilities, kind="stable").astype(np.int32)
    probabilities = np.exp(log_probabilities[order].astype(np.float64)).astype(np.float32)
    size = support_size(probabilities, mass)
    return order[:size], probabilities[:size]


def law_entropy(log_probabilities: np.ndarray) -> float:
    """Entropy in nats, float64, of a law float[V] given by its log-probabilities."""
    finite = log_probabilities[np.isfinite(log_probabilities)].astype(np.float64)
    return float(-(np.exp(finite) * finite).sum())


def answer_counts(answers: Sequence[str | Invalid]) -> dict[str, int]:
    """How often each answer was given, most frequent first, equal ones in code point order."""
    counts = Counter(answer for answer in answers if not isinstance(answer, Invalid))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def open_row(prompt: TextPrompt, answers: Sequence[str | Invalid], reference_size: int) -> dict:
    """The normalised answers, or reasons, of one prompt's samples as a row of the per-prompt table.

    ``reference_size`` is that of ``answer_diversity``.
    """
    counts = np.array(list(answer_counts(answers).values()), dtype=np.int64)
    reasons = Counter(answer.value for answer in answers if isinstance(answer, Invalid))
    diversity = answer_diversity(counts, len(answers), reference_size)
    return {
        "prompt_id": prompt.prompt_id,
        "split": prompt.split,
        "category": prompt.category,
        "num_samples": len(answers),
        "num_valid": int(counts.sum()),
        "valid_rate": counts.sum() / len(answers) if answers else math.nan,
        **{name: diversity[name] for name in ("unique_fraction", "effective_answers")},
        **{f"invalid_{reason.value}": reasons[reason.value] for reason in Invalid},
    }
