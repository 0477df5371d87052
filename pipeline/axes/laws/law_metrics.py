"""Metrics of the axis laws: one prompt's answers against its law, and what is reported of a split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.laws.categories import (
    evaluate_categories,
    total_variation_deviations,
    total_variation_floors,
)
from pipeline.axes.structured.aggregate import REJECTED_BELOW, estimate_over_families, valid_rates
from pipeline.axes.structured.fidelity import NUM_HALVES, wasserstein_1_deviations
from pipeline.axes.structured.wasserstein import evaluate_prompt, interquantile_width, perfect_sampler_replicates
from pipeline.core.exact.trie_law import exact_law, leaf_index
from pipeline.core.laws.discretize import OutputSpace
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import Estimate, metric_row, wilson_interval
from pipeline.core.statistics.paired_tests import holm
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
VALID_RATE = "law_valid_rate"


def is_numeric(law: Any) -> bool:
    """Whether the answers are numbers."""
    return not isinstance(law, FiniteLaw) or law.values is not None


@dataclass(frozen=True)
class LawResult:
    """One prompt's answers.

    Attributes:
        row: Its row of the per-prompt table.
        floors: By metric of LAW_TESTED, float64[R]: what perfect samplers of as many valid answers score.
        deviations: By metric, float64[NUM_HALVES]: how it varies with the sample.
        counts: Number of valid answers by class; empty for numbers.
        samples: float64[n], valid numbers; empty for categories.
        reference: float64[n], the target's mid-quantiles at that size.
    """

    row: dict[str, Any]
    floors: dict[str, np.ndarray]
    deviations: dict[str, np.ndarray]
    counts: dict[str, int] = field(default_factory=dict)
    samples: np.ndarray = field(default_factory=lambda: np.empty(0))
    reference: np.ndarray = field(default_factory=lambda: np.empty(0))


def evaluate_law(
    prompt: Prompt, answers: Sequence[str | Invalid], *, seed: int, names: tuple[str, ...], floor_replicates: int
) -> LawResult:
    """Compare the answers to a prompt with its law.

    Args:
        prompt: The prompt.
        answers: One of each generation.
        seed: Root seed.
        names: Model and condition.
        floor_replicates: Perfect samplers, R.
    """
    law, name = prompt.law, prompt.prompt_id
    halves = random_stream(seed, "half samples", "laws", *names, prompt.split, name)
    row: dict[str, Any] = {
        "prompt_id": name,
        "split": prompt.split,
        "family": prompt.family,
        "fields": ", ".join(f"{key}={value}" for key, value in prompt.parameters.items()),
        "numeric": is_numeric(law),
        "num_samples": len(answers),
    }
    if not is_numeric(law):
        result = evaluate_categories(answers, law)
        size, target = int(result.counts.sum()), law.class_probabilities
        # A perfect sampler of a size is the same whatever the condition.
        floor = total_variation_floors(target, size, floor_replicates, random_stream(seed, "floor", "laws", name, size))
        metric, value, p, invalid = "law_total_variation", result.total_variation, result.chi_square_p, result.invalid
        varied = total_variation_deviations(result.counts, target, NUM_HALVES, halves)
        more = {"counts": dict(zip(law.class_names, result.counts.tolist(), strict=True))}
    else:
        found = evaluate_prompt(answers, law)
        size = len(found.samples)
        rng = random_stream(seed, "floor", "laws", name, size)
        floor = (
            perfect_sampler_replicates(law, size, floor_replicates, rng) if size else np.full(floor_replicates, np.nan)
        )
        metric, value, p, invalid = (
            "law_wasserstein_1_normalised",
            found.wasserstein_1_normalised,
            np.nan,
            found.invalid,
        )
        varied = wasserstein_1_deviations(found, law, halves)
        more = {"samples": np.sort(found.samples), "reference": found.reference}
    row |= {"num_valid": size, VALID_RATE: size / len(answers) if answers else np.nan, metric: value}
    row |= {"floor": float(floor.mean()), CHI_SQUARE_P: p}
    row |= {f"invalid_{reason.value}": invalid.get(reason.value, 0) for reason in Invalid}
    return LawResult(row, {metric: floor}, {metric: varied}, **more)


def exact_figures(
    prompt: Prompt, space: OutputSpace, sequences: Sequence[Sequence[int]], trie: Trie, log_probabilities: np.ndarray
) -> dict[str, float]:
    """EXACT of one prompt.

    Args:
        prompt: The prompt.
        space: Its law's strings.
        sequences: Token ids of each string, terminator excluded.
        trie: Their trie.
        log_probabilities: float64[num_edges], the model's log p(token | prefix) in nats.
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
    if found.grid is not None and (width := interquantile_width(law)) > 0:
        figures["law_exact_wasserstein_1_normalised"] = found.grid.wasserstein_1 / width
    return figures


def law_metric_rows(
    per_prompt: pd.DataFrame, results: Sequence[LawResult], *, seed: int, names: tuple[str, ...], replicates: int
) -> list[dict[str, Any]]:
    """Rows of one split: mean within each law, mean over laws, and each law by itself.

    Intervals resample laws, prompts and answers (``hierarchical_bootstrap``); of one law prompts and answers.

    Args:
        per_prompt: One row per prompt of the split, EXACT included where they were computed.
        results: Of the same prompts, in order.
        seed: Root seed.
        names: Axis, model, condition and split.
        replicates: Resamples.
    """
    rows = []
    for metric in (*LAW_TESTED, *EXACT):
        if metric not in per_prompt:
            continue
        sampled = metric in LAW_TESTED
        # Without valid answers a distance is undefined, not absent: the prompt's law has it.
        chosen = np.array([metric in each.floors for each in results]) if sampled else per_prompt[metric].notna()
        members = per_prompt[np.asarray(chosen)]
        own = [each for each, has in zip(results, chosen, strict=True) if has]
        for law in ("", *dict.fromkeys(members["family"])) if len(members) else ():
            of_law = (members["family"] == law).to_numpy() | (law == "")
            part = [each for each, has in zip(own, of_law, strict=True) if has]
            estimate, floor = estimate_over_families(
                members[metric].to_numpy(dtype=np.float64)[of_law],
                members["family"].to_numpy()[of_law],
                "family_mean",
                int(members["num_valid"].to_numpy()[of_law].sum()) if sampled else int(of_law.sum()),
                np.stack([each.deviations[metric] for each in part]) if sampled else None,
                np.stack([each.floors[metric] for each in part]) if sampled else None,
                random_stream(seed, "bootstrap", *names, metric, law),
                replicates,
            )
            rows.append(metric_row(metric, estimate, family=law, floor=floor))
    rows += _rejected_shares(per_prompt)
    return rows + valid_rates(per_prompt, per_prompt["family"].to_numpy(), seed, names, replicates, VALID_RATE)


def _rejected_shares(per_prompt: pd.DataFrame) -> list[dict[str, Any]]:
    """Share of prompts whose answers are shown not to follow the law, after Holm's adjustment over the split."""
    adjusted = holm(per_prompt[CHI_SQUARE_P].to_numpy(dtype=np.float64))
    rows = []
    categories = per_prompt[~per_prompt["numeric"].astype(bool)]
    for law in ("", *dict.fromkeys(categories["family"])) if len(categories) else ():
        own = adjusted[((per_prompt["family"] == law) | (law == "")).to_numpy()]
        tested, rejected = int(np.isfinite(own).sum()), int((own <= REJECTED_BELOW).sum())
        value = rejected / tested if tested else np.nan
        undefined = int((~np.isfinite(own)).sum()) if law else 0
        estimate = Estimate(value, tested, *wilson_interval(rejected, tested), undefined)
        rows.append(metric_row(REJECTED_SHARE, estimate, family=law))
    return rows


def failures(per_prompt: pd.DataFrame) -> Mapping[str, int]:
    """Answers of a split by the reason why they are invalid, where there are any."""
    columns = [name for name in per_prompt if name.startswith("invalid_")]
    counts = {name.removeprefix("invalid_"): int(per_prompt[name].sum()) for name in columns}
    return {reason: count for reason, count in counts.items() if count}
