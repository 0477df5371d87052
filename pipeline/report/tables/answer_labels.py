"""Which answers the bars of Figure 10 show (arXiv:2605.11845, caption of Figure 10)."""

from collections.abc import Mapping

import pandas as pd

from pipeline.config.params import CONDITIONS

CANDIDATES_PER_CONDITION = 10
SHOWN_LABELS = 15


def answer_shares(answers: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Share of each answer among all non-empty answers, by condition, most frequent first.

    Args:
        answers: Columns condition, answer, count, for one model and category. Conditions other than base, soft
            and hard are left out, as are those without an answer.
    """
    shares = {}
    for condition in CONDITIONS:
        counts = answers[answers["condition"] == condition].groupby("answer")["count"].sum()
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        total = sum(count for _, count in ordered)
        if total:
            shares[condition] = {answer: float(count / total) for answer, count in ordered}
    return shares


def displayed_labels(shares: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The answers to show, by peak, then total share over the conditions, then spelling.

    The candidates are the ten most frequent answers of each condition; the first fifteen
    of their union are shown.

    Args:
        shares: Condition -> answer -> share, most frequent first.
    """
    candidates = {
        answer: [by_answer.get(answer, 0.0) for by_answer in shares.values()]
        for first in shares.values()
        for answer in list(first)[:CANDIDATES_PER_CONDITION]
    }
    # Rounded: sums of the same shares in another order must tie.
    ranked = sorted(candidates, key=lambda a: (-max(candidates[a]), -round(sum(candidates[a]), 12), a))
    return ranked[:SHOWN_LABELS]
