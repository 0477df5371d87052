"""Metrics of open-ended random generation: first-step support, distinct answers and their entropy.

The paper reports the top-90% support size and the unique-output fraction (arXiv:2605.11845,
Section 4.2). Entropy and effective number of answers are ours; they also see how evenly
answers are used, and change little with the number of samples.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.core.language.diversity import answer_diversity
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.statistics.summarise import mean_of, median_of

SUPPORT_THRESHOLDS = (*(round(0.05 * k, 2) for k in range(1, 20)), 0.99, 0.999)
"""The masses at which support sizes are computed."""
HEADLINE_THRESHOLD = 0.9
STORED_MASS = 0.9995
"""How much of a first-step law is kept: beyond every threshold."""
CASE_FOLDED = "_case_folded"
SUPPORT_SIZES = {f"top_p_support_size_at_{threshold:g}": threshold for threshold in SUPPORT_THRESHOLDS}
"""Threshold by column of ``law_row``."""
# A prompt whose answers nearly all differ has an effective number that is an extrapolation into the thousands and would
# carry the mean.
ANSWER_STATISTICS = {
    **{name: mean_of(name) for name in ("valid_rate", "unique_fraction", "answer_entropy_nats")},
    f"unique_fraction{CASE_FOLDED}": mean_of(f"unique_fraction{CASE_FOLDED}"),
    **{f"effective_answers{suffix}_median": median_of(f"effective_answers{suffix}") for suffix in ("", CASE_FOLDED)},
}
"""Over rows of ``open_row``."""
LAW_STATISTICS = {"top_p_support_size": mean_of("top_p_support_size")}
"""Over rows of ``law_row``."""


def support_sizes(probabilities: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Number of tokens, most probable first, whose probabilities sum to at least each threshold.

    Sums are float64 over probabilities as stored (float32), without tolerance. The order among
    equally probable tokens does not change the number.

    Args:
        probabilities: float[K], a law or its most probable part, in any order.
        thresholds: float[T] in (0, 1).

    Returns:
        int64[T].

    Raises:
        ValueError: The probabilities do not sum to a threshold.
    """
    cumulative = np.cumsum(np.sort(np.asarray(probabilities, dtype=np.float64))[::-1])
    reached = cumulative[-1] if len(cumulative) else 0.0
    if not reached >= max(thresholds):
        raise ValueError(f"the probabilities sum to {reached}, less than the threshold {max(thresholds)}")
    return np.searchsorted(cumulative, thresholds, side="left") + 1


def leading_tokens(log_probabilities: np.ndarray, mass: float = STORED_MASS) -> tuple[np.ndarray, np.ndarray]:
    """The fewest tokens that have ``mass`` together.

    Args:
        log_probabilities: float32[V], nats.
        mass: In (0, 1).

    Returns:
        int32[K] token ids, most probable first (equal ones by id), and float32[K] probabilities.
    """
    order = np.argsort(-log_probabilities, kind="stable").astype(np.int32)
    probabilities = np.exp(log_probabilities[order].astype(np.float64)).astype(np.float32)
    size = int(support_sizes(probabilities, [mass])[0])
    return order[:size], probabilities[:size]


def law_entropy(log_probabilities: np.ndarray) -> float:
    """Entropy in nats, float64, of a law float[V] given by its log-probabilities."""
    finite = log_probabilities[np.isfinite(log_probabilities)].astype(np.float64)
    return float(-(np.exp(finite) * finite).sum())


def answer_counts(answers: Sequence[str | Invalid]) -> dict[str, int]:
    """How often each answer was given, most frequent first, equal ones in code point order."""
    counts = Counter(answer for answer in answers if not isinstance(answer, Invalid))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def open_row(prompt: TextPrompt, answers: Sequence[str | Invalid], num_truncated: int, reference_size: int) -> dict:
    """The sample-level result of one prompt as a row of the per-prompt table.

    Args:
        prompt: The request.
        answers: Normalised answers or reasons, one per sample.
        num_truncated: Replies that ended at the token limit; they are not left out.
        reference_size: See ``answer_diversity``.
    """
    valid = [answer for answer in answers if not isinstance(answer, Invalid)]
    reasons = Counter(answer.value for answer in answers if isinstance(answer, Invalid))
    row = {
        "prompt_id": prompt.prompt_id,
        "split": prompt.split,
        "category": prompt.category,
        "num_samples": len(answers),
        "num_valid": len(valid),
        "num_truncated": num_truncated,
        "valid_rate": len(valid) / len(answers) if answers else math.nan,
    }
    for suffix, texts in (("", valid), (CASE_FOLDED, [answer.casefold() for answer in valid])):
        counts = np.array(list(answer_counts(texts).values()), dtype=np.int64)
        values = answer_diversity(counts, len(answers), reference_size)
        row.update({name + suffix: value for name, value in values.items()})
    return {**row, **{f"invalid_{reason.value}": reasons[reason.value] for reason in Invalid}}


def law_row(probabilities: np.ndarray, entropy_nats: float) -> dict[str, float]:
    """What a prompt's first-step law, of which the leading probabilities are given, adds to its row."""
    sizes = dict(zip(SUPPORT_SIZES, support_sizes(probabilities, SUPPORT_THRESHOLDS).astype(float), strict=True))
    headline = sizes[f"top_p_support_size_at_{HEADLINE_THRESHOLD:g}"]
    return {"top_p_support_size": headline, "first_token_entropy_nats": entropy_nats, **sizes}


def support_table(per_prompt: pd.DataFrame) -> pd.DataFrame:
    """Columns prompt_id, threshold and support_size from rows of ``law_row``; no row where there is no law."""
    sizes = per_prompt.set_index("prompt_id")[[*SUPPORT_SIZES]].rename(columns=SUPPORT_SIZES)
    long = sizes.melt(var_name="threshold", value_name="support_size", ignore_index=False).dropna().reset_index()
    return long.astype({"threshold": "float64", "support_size": "int64"})
