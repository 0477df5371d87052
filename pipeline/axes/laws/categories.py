"""Answers that are categories against their law: total variation and the chi-square test, by class."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.statistics.law_check import LawCells, total_variations


@dataclass(frozen=True)
class CategoryResult:
    """The answers to one prompt.

    Attributes:
        counts: int64[K], valid answers by class of the law.
        invalid: Number of answers by reason.
        total_variation: Of the valid answers from the law; NaN without any.
        chi_square_p: Pearson's test that they are draws from the law, rare classes together (Cochran's rule); NaN
            without answers or with a single cell.
    """

    counts: np.ndarray
    invalid: dict[str, int]
    total_variation: float
    chi_square_p: float


def evaluate_categories(answers: Sequence[str | Invalid], law: FiniteLaw) -> CategoryResult:
    """Find the class of each answer; one that is none of the law's strings is out of the support."""
    class_of = dict(zip(law.strings, law.class_of.tolist(), strict=True))
    found = [normalise_answer(answer) for answer in answers]
    # A reason is a string as well, and may be one of the law's.
    places = [class_of[text] for text in found if not isinstance(text, Invalid) and text in class_of]
    reasons = [
        text if isinstance(text, Invalid) else Invalid.OUT_OF_SUPPORT
        for text in found
        if isinstance(text, Invalid) or text not in class_of
    ]
    counts = np.bincount(places, minlength=len(law.class_names)).astype(np.int64)
    p = math.nan
    if len(places):
        tested = LawCells(dict(enumerate(law.class_probabilities.tolist())), len(places))
        if tested.degrees_of_freedom:
            p = tested.test(dict(enumerate(counts.tolist()))).p_value
    distance = float(total_variations(counts[None], law.class_probabilities)[0])
    return CategoryResult(counts, dict(Counter(reason.value for reason in reasons)), distance, p)
