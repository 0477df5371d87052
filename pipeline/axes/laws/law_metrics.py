"""Metrics of the axis laws: one prompt's answers against its law, and what is reported of a split."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.laws.categories import evaluate_categories
from pipeline.axes.structured.aggregate import FAMILY_VALID_RATE, VALID_RATE, rejected, total
from pipeline.axes.structured.fidelity import NUM_HALVES, Measured, wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import evaluate_prompt, interquantile_width, perfect_sampler_replicates
from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import total_variation_deviations, total_variation_floors
from pipeline.core.statistics.paired_tests import holm
from pipeline.core.statistics.summarise import Statistic, aggregate_of, share_of
from pipeline.core.tries.trie import Trie

LAW_TESTED = {
    "law_total_variation": "family_mean",
    "law_wasserstein_1_normalised": "family_mean",
}
"""Distances of samples: of categories, and of numbers. A prompt has one of them."""
EXACT = (
    "law_exact_total_variation",
    "law_exact_wasserstein_1_normalised",
    "law_exact_mass",
    "law_exact_sequence_kl_nats",
)
"""Figures of the model's law over the strings, without sampling."""
CHI_SQUARE_P = "chi_square_p"
REJECTED_SHARE = "law_chi_square_rejected_share"
LAW_VALID_RATE = "law_valid_rate"


def is_numeric(law: Any) -> bool:
    """Whether the answers are numbers."""
    return not isinstance(law, FiniteLaw) or law.values is not None


@dataclass(frozen=True)
class LawResult(Measured):
    """One prompt's answers; deviations and floors are of its metric of LAW_TESTED.

    Attributes:
        counts: Number of valid answers by class; empty for numbers.
        samples: float64[n], valid numbers in ascending order; empty for categories.
    """

    counts: dict[str, int] = field(default_factory=dict)
    samples: np.ndarray = field(default_factory=lambda: np.empty(0))


def evaluate_law(
    prompt: Prompt, answers: Sequence[str | Invalid], *, seed: int, names: tuple[str, ...], floor_replicates: int
) -> LawResult:
    """Compare the answers to a prompt, one of each generation, with its law; ``names`` are model and condition."""
    law, name, numeric, p = prompt.law, prompt.prompt_id, is_numeric(prompt.law), np.nan
    halves = random_stream(seed, "half samples", "laws", *names, prompt.split, name)
    if numeric:
        found, metric = evaluate_prompt(answers, law), "law_wasserstein_1_normalised"
        size, value = len(found.samples), found.wasserstein_1_normalised
        perfect: Callable = partial(perfect_sampler_replicates, law)
        varied = wasserstein_1_deviations(found.samples, law, halves)
        more: dict[str, Any] = {"samples": np.sort(found.samples)}
    else:
        found, metric = evaluate_categories(answers, law), "law_total_variation"
        size, value, p = int(found.counts.sum()), found.total_variation, found.chi_square_p
        perfect = partial(total_variation_floors, law.class_probabilities)
        varied = total_variation_deviations(found.counts, law.class_probabilities, NUM_HALVES, halves)
        more = {"counts": dict(zip(law.class_names, found.counts.tolist(), strict=True))}
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
        **{f"invalid_{reason.value}": found.invalid.get(reason.value, 0) for reason in Invalid},
    }
    return LawResult(row, {metric: varied}, {metric: floor}, **more)


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
    figures = {
        "law_exact_total_variation": (float(np.abs(difference).sum()) + found.mass_off_trie) / 2,
        "law_exact_mass": found.mass_on_trie,
        "law_exact_sequence_kl_nats": found.sequence_kl,
    }
    if numeric and (width := interquantile_width(law)) > 0:
        figures["law_exact_wasserstein_1_normalised"] = found.wasserstein_1 / width
    return figures


def summaries(rows: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Mapping[str, Statistic], Mapping[str, Statistic]]]:
    """Rows of a split, what is reported of them, and what of each law by itself: arguments of ``summarise``.

    ``rows``, one per condition and prompt, are the per-prompt table with ``Measured.arrays``.
    """
    numeric = rows["numeric"].astype(bool)
    for metric in (*LAW_TESTED, *EXACT):
        if metric in rows:
            # Without valid answers a distance is undefined, not absent: the prompt's law has it.
            sampled = {"law_total_variation": ~numeric, "law_wasserstein_1_normalised": numeric}.get(metric)
            size = None if sampled is None else total("num_valid")
            found = {metric: aggregate_of(metric, "family_mean", size)}
            yield rows[rows[metric].notna() if sampled is None else sampled], found, found
    # Numbers are not tested, but count in the adjustment.
    adjusted = rows.groupby("condition")[CHI_SQUARE_P].transform(lambda own: holm(own.to_numpy(np.float64)))
    share = {REJECTED_SHARE: share_of(REJECTED_SHARE)}
    yield rows.assign(**{REJECTED_SHARE: rejected(adjusted)})[~numeric], share, share
    yield rows, {LAW_VALID_RATE: VALID_RATE}, {LAW_VALID_RATE: FAMILY_VALID_RATE}
