"""One prompt's answers against its law, exact figures of the model's law, and what is reported of a split."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.structured.aggregate import FAMILY_VALID_RATE, VALID_RATE, total
from pipeline.axes.structured.fidelity import NUM_HALVES, Measured, wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import evaluate_prompt, interquantile_width, perfect_sampler_replicates
from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import (
    LawCells,
    total_variation_deviations,
    total_variation_floors,
    total_variations,
)
from pipeline.core.statistics.summarise import Statistic, aggregate_of
from pipeline.core.tries.trie import Trie

SAMPLED = ("law_total_variation", "law_wasserstein_1_normalised")
"""Distances of samples: of categories, and of numbers. A prompt has one of them."""
EXACT = ("law_exact_total_variation", "law_exact_wasserstein_1_normalised")
"""Figures of the model's law over the strings, without sampling."""
CHI_SQUARE_P = "chi_square_p"
LAW_VALID_RATE = "law_valid_rate"


def is_numeric(law: Any) -> bool:
    """Whether the answers are numbers."""
    return not isinstance(law, FiniteLaw) or law.values is not None


@dataclass(frozen=True)
class LawResult(Measured):
    """One prompt's answers; deviations and floors are of its metric of SAMPLED."""

    counts: dict[str, int] = field(default_factory=dict)
    """Valid answers by class; empty for numbers."""


def class_counts(answers: Sequence[str | Invalid], law: FiniteLaw) -> tuple[np.ndarray, dict[str, int]]:
    """int64[K] answers by class, and the others by reason; a text that is none of the law's is out of the support."""
    class_of = dict(zip(law.strings, law.class_of.tolist(), strict=True))
    # A reason is a string as well, and may be one of the law's.
    found = [text if isinstance(text, Invalid) else class_of.get(text) for text in map(normalise_answer, answers)]
    places = [place for place in found if isinstance(place, int)]
    reasons = Counter((place or Invalid.OUT_OF_SUPPORT).value for place in found if not isinstance(place, int))
    return np.bincount(places, minlength=len(law.class_names)).astype(np.int64), dict(reasons)


def chi_square_p(counts: np.ndarray, law: FiniteLaw) -> float:
    """Pearson's test that int64[K] answers are draws from the law, rare classes together; NaN with a single cell."""
    if counts.sum():
        cells = LawCells(dict(enumerate(law.class_probabilities.tolist())), int(counts.sum()))
        if cells.degrees_of_freedom:
            return cells.p_value(dict(enumerate(counts.tolist())))
    return math.nan


def evaluate_law(
    prompt: Prompt, answers: Sequence[str | Invalid], *, seed: int, names: tuple[str, ...], floor_replicates: int
) -> LawResult:
    """Compare the answers to a prompt, one of each generation, with its law; ``names`` are model and condition."""
    law, name, numeric = prompt.law, prompt.prompt_id, is_numeric(prompt.law)
    p, by_class = math.nan, {}
    halves = random_stream(seed, "half samples", "laws", *names, prompt.split, name)
    if numeric:
        result, metric = evaluate_prompt(answers, law), "law_wasserstein_1_normalised"
        size, value, invalid = len(result.samples), result.wasserstein_1_normalised, result.invalid
        perfect: Callable = partial(perfect_sampler_replicates, law)
        varied = wasserstein_1_deviations(result.samples, law, halves)
    else:
        (counts, invalid), metric = class_counts(answers, law), "law_total_variation"
        target, p = law.class_probabilities, chi_square_p(counts, law)
        size, value = int(counts.sum()), float(total_variations(counts[None], target)[0])
        perfect = partial(total_variation_floors, target)
        varied = total_variation_deviations(counts, target, NUM_HALVES, halves)
        by_class = dict(zip(law.class_names, counts.tolist(), strict=True))
    # A perfect sampler of a size is the same whatever the condition.
    rng = random_stream(seed, "floor", "laws", name, size)
    floor = perfect(size, floor_replicates, rng) if size else np.full(floor_replicates, np.nan)
    row = {
        "prompt_id": name,
        "split": prompt.split,
        "family": prompt.family,
        "fields": ", ".join(f"{key}={value}" for key, value in prompt.parameters.items()),
        "numeric": numeric,
        "num_samples": len(answers),
        "num_valid": size,
        LAW_VALID_RATE: size / len(answers) if answers else np.nan,
        metric: value,
        "floor": float(floor.mean()),
        CHI_SQUARE_P: p,
        **{f"invalid_{reason.value}": invalid.get(reason.value, 0) for reason in Invalid},
    }
    return LawResult(row, {metric: varied}, {metric: floor}, by_class)


def exact_figures(
    prompt: Prompt, space: OutputSpace, sequences: Sequence[Sequence[int]], trie: Trie, log_probabilities: np.ndarray
) -> dict[str, float]:
    """EXACT of one prompt.

    ``sequences`` are the token ids of each string of its law's space, terminator excluded; ``log_probabilities``
    float64[num_edges] are the model's log p(token | prefix) in nats.
    """
    law, numeric = prompt.law, is_numeric(prompt.law)
    places = leaf_index(trie, sequences)
    kept = places >= 0
    values = None
    if numeric:
        values = np.empty(int(kept.sum()))
        values[places[kept]] = np.array([float(text) for text in space.values])[kept]
    found = exact_law(trie, log_probabilities, values)
    model = np.zeros(len(places))
    model[kept] = np.exp(found.log_probabilities)[places[kept]]
    class_of = law.class_of if isinstance(law, FiniteLaw) else np.arange(len(places))
    difference = np.bincount(class_of, weights=model - np.asarray(space.probabilities))
    figures = {"law_exact_total_variation": (float(np.abs(difference).sum()) + found.mass_off_trie) / 2}
    if numeric and (width := interquantile_width(law)) > 0:
        figures["law_exact_wasserstein_1_normalised"] = found.wasserstein_1 / width
    return figures


def summaries(rows: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Mapping[str, Statistic], Mapping[str, Statistic]]]:
    """Rows of a split, what is reported of them, and what of each law by itself: arguments of ``summarise``.

    ``rows``, one per condition and prompt, are the per-prompt table with ``Measured.arrays``.
    """
    yield rows, {LAW_VALID_RATE: VALID_RATE}, {LAW_VALID_RATE: FAMILY_VALID_RATE}
    numeric = rows["numeric"].astype(bool)
    # Without valid answers a distance is undefined, not absent: the prompt's law has it.
    chosen = dict(zip(SAMPLED, (~numeric, numeric), strict=True)) | {name: rows[name].notna() for name in EXACT}
    for metric, kind in chosen.items():
        if metric in rows:
            size = total("num_valid") if metric in SAMPLED else None
            statistic = {metric: aggregate_of(metric, "family_mean", size)}
            yield rows[kind], statistic, statistic
