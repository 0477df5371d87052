"""Conditions of different cost at the same number of generated tokens per prompt."""

from collections.abc import Sequence

import numpy as np

from pipeline.axes.structured.wasserstein import PromptResult, evaluate_prompt
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt


def generations_within(num_tokens: np.ndarray, budget: int) -> int:
    """How many generations, from the first on, take at most ``budget`` tokens together.

    Args:
        num_tokens: int64[G], generated tokens of each, the terminator included.
        budget: Tokens.
    """
    return int(np.searchsorted(np.cumsum(num_tokens), budget, side="right"))


def within_budget(
    prompt: Prompt, answers: Sequence[Sequence[str | Invalid]], num_tokens: np.ndarray, budget: int
) -> tuple[dict, PromptResult]:
    """What one prompt's generations come to within a token budget.

    Args:
        prompt: The prompt and its law.
        answers: The answers of each of G generations, in sample order; one may hold several.
        num_tokens: int64[G].
        budget: Generated tokens.

    Returns:
        Columns of the per-prompt table: ``answers_at_budget`` (valid or not), ``num_valid_at_budget``,
        ``valid_rate_at_budget``, ``wasserstein_1_normalised_at_budget`` (NaN without a valid one), and
        ``num_tokens`` of all generations. And the result of the answers within the budget.
    """
    affordable = [answer for group in answers[: generations_within(num_tokens, budget)] for answer in group]
    within = evaluate_prompt(affordable, prompt.law)
    row = {
        "answers_at_budget": len(affordable),
        "num_valid_at_budget": len(within.samples),
        "valid_rate_at_budget": within.valid_rate,
        "wasserstein_1_normalised_at_budget": within.wasserstein_1_normalised,
        "num_tokens": int(np.sum(num_tokens)),
    }
    return row, within
