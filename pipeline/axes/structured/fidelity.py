"""All sample-level distances of one prompt's answers from its law: values, variation with the sample, and floors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.axes.structured.energy import EnergyReference
from pipeline.axes.structured.pit import (
    NUM_BINS,
    count_invalid_as_one,
    histogram,
    pit_ks,
    pit_wasserstein_1,
    randomised_pit,
    uniformity_tests,
)
from pipeline.axes.structured.tails import QUANTILE_ERRORS, at_levels, quantile_errors
from pipeline.axes.structured.wasserstein import PromptResult, distances
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import half_sample_deviations, half_samples, interval_of_deviations
from pipeline.core.statistics.paired_tests import holm

DISTANCES = ("pit_wasserstein_1", "pit_wasserstein_1_all_answers", "pit_ks", "energy_distance_normalised")
"""Per-prompt columns that are reported for every family."""
UNIFORMITY_TESTS = {"pit_rejected_share": "pit_ks_p", "pit_chi_square_rejected_share": "pit_chi_square_p"}
"""Metric, and the column of p-values that it counts after Holm's adjustment."""
NUM_HALVES = 200
"""Half-samples behind each prompt's variation with the sample."""


@dataclass(frozen=True)
class Measured:
    """What the answers to one prompt come to.

    Attributes:
        row: Columns of the per-prompt table.
        deviations: By distance, float64[NUM_HALVES]: how it varies with the sample (``half_sample_deviations``); 0 with
            fewer than two valid answers.
        floors: By distance, float64[R]: what R perfect samplers score.
    """

    row: dict[str, Any]
    deviations: dict[str, np.ndarray]
    floors: dict[str, np.ndarray]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Deviations and floors as the columns that ``aggregate_of`` looks for."""
        kinds = {"deviations": self.deviations, "floors": self.floors}
        return {f"{name} {kind}": array for kind, arrays in kinds.items() for name, array in arrays.items()}


@dataclass(frozen=True)
class Fidelity(Measured):
    """Distances of one prompt's answers from its law: DISTANCES, QUANTILE_ERRORS and those of ``distances``.

    Attributes:
        samples: float64[num_valid], the valid answers.
        pits: float64[num_valid], where each lies in its law.
    """

    samples: np.ndarray
    pits: np.ndarray


def evaluate_fidelity(
    prompt: Prompt, result: PromptResult, seed: int, names: tuple[str, str], floor_replicates: int
) -> Fidelity:
    """Compare the valid samples of one prompt with its law.

    ``names`` are model and condition; a perfect sampler of a size is the same whatever they are.
    """
    law, samples, size, own = prompt.law, result.samples, len(result.samples), (*names, prompt.prompt_id)
    pits = randomised_pit(law, samples, result.decimals, random_stream(seed, "pit", "structured", *own))
    reference, ordered = EnergyReference(law), np.sort(samples)
    measured = _distances(np.sort(pits)[None], ordered[None], law)
    measured["energy_distance_normalised"] = reference.distances(ordered, np.ones((1, size), dtype=bool))
    row = {name: float(values[0]) for name, values in measured.items()}
    row["pit_wasserstein_1_all_answers"] = float(count_invalid_as_one(row["pit_wasserstein_1"], result.valid_rate))
    halves = random_stream(seed, "half samples", "structured", *own)
    deviations = _sample_deviations(samples, pits, law, reference, halves)
    deviations["pit_wasserstein_1_all_answers"] = _all_answers_deviations(row, deviations, result, halves)
    row |= uniformity_tests(pits)
    row |= {
        f"{name}_standard_error": float(deviations[name].std(ddof=1)) if size > 1 else math.nan
        for name in (*DISTANCES, "wasserstein_1_normalised")
    }
    low, high = interval_of_deviations(row["wasserstein_1_normalised"], deviations["wasserstein_1_normalised"])
    row |= {"wasserstein_1_normalised_ci_low": low, "wasserstein_1_normalised_ci_high": high}
    # Perfect samplers' PITs are uniform, whatever the law.
    rng = random_stream(seed, "floor", "pit", prompt.prompt_id, size)
    perfect = everything = np.sort(rng.random((floor_replicates, size)), axis=1)
    if size != result.num_samples:
        rng = random_stream(seed, "floor", "pit", prompt.prompt_id, result.num_samples, "all answers")
        everything = np.sort(rng.random((floor_replicates, result.num_samples)), axis=1)
    return Fidelity(row, deviations, _floors(perfect, everything, law, reference), samples, pits)


def ranked_halves(values: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """float64[R, n // 2], in ascending order the values of float64[n] that are in each of bool[R, n] halves."""
    order = np.argsort(values)
    return np.broadcast_to(values[order], halves.shape)[halves[:, order]].reshape(len(halves), -1)


def _sample_deviations(
    samples: np.ndarray, pits: np.ndarray, law: Law, reference: EnergyReference, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """float64[NUM_HALVES] by distance of samples; 0 with fewer than two valid answers, of which there is no half.

    A prompt without halves must not take them from the others: their split's interval is over all prompts.
    """
    halves, order = half_samples(len(samples), NUM_HALVES, rng), np.argsort(samples)
    varied = _distances(ranked_halves(pits, halves), ranked_halves(samples, halves), law)
    varied["energy_distance_normalised"] = reference.distances(samples[order], halves[:, order])
    return {name: half_sample_deviations(values, len(samples)) for name, values in varied.items()}


def wasserstein_1_deviations(samples: np.ndarray, law: Law | FiniteLaw, rng: np.random.Generator) -> np.ndarray:
    """How normalised W1 (Eq. 5) varies with float64[n] samples, float64[NUM_HALVES]; 0 with fewer than two.

    As in ``evaluate_fidelity``, where the stream is that of its half-samples.
    """
    ranked = ranked_halves(samples, half_samples(len(samples), NUM_HALVES, rng))
    return half_sample_deviations(distances(ranked, law)["wasserstein_1_normalised"], len(samples))


def _distances(pits: np.ndarray, samples: np.ndarray, law: Law) -> dict[str, np.ndarray]:
    """float64[R] by distance of R samples, ascending in each row of float64[R, n]; not the energy distance."""
    errors = dict(zip(QUANTILE_ERRORS, quantile_errors(law, at_levels(samples)).T, strict=True))
    return {"pit_wasserstein_1": pit_wasserstein_1(pits), "pit_ks": pit_ks(pits), **errors, **distances(samples, law)}


def _floors(pits: np.ndarray, everything: np.ndarray, law: Law, reference: EnergyReference) -> dict[str, np.ndarray]:
    """float64[R] by distance of perfect samplers: ordered PITs of as many answers as are valid, and as there are."""
    # Only the order statistics that are needed become values.
    found = at_levels(pits)
    errors = quantile_errors(law, quantile(law, found) if pits.shape[1] else found).T
    return {
        "pit_wasserstein_1": pit_wasserstein_1(pits),
        "pit_ks": pit_ks(pits),
        "pit_wasserstein_1_all_answers": pit_wasserstein_1(everything),
        "energy_distance_normalised": reference.floor(pits),
        **dict(zip(QUANTILE_ERRORS, errors, strict=True)),
    }


def _all_answers_deviations(
    row: Mapping[str, float], deviations: Mapping[str, np.ndarray], result: PromptResult, rng: np.random.Generator
) -> np.ndarray:
    """Of valid_rate * distance + 1 - valid_rate, to first order in both: redrawn answers vary in rate and distance."""
    if not len(result.samples):
        return np.zeros(NUM_HALVES)
    rate, size = result.valid_rate, result.num_samples
    rates = rng.binomial(size, rate, NUM_HALVES) / size - rate
    return rate * deviations["pit_wasserstein_1"] + (row["pit_wasserstein_1"] - 1) * rates


def histogram_table(pits: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """PIT histograms by prompt: prompt_id, bin (0 to NUM_BINS - 1), count, expected (of a perfect sampler)."""
    return pd.DataFrame(
        [
            (prompt_id, number, count, len(values) / NUM_BINS)
            for prompt_id, values in pits.items()
            for number, count in enumerate(histogram(values).tolist())
        ],
        columns=["prompt_id", "bin", "count", "expected"],
    )


def adjusted_p_values(per_prompt: pd.DataFrame) -> pd.DataFrame:
    """Holm-adjusted p-values of UNIFORMITY_TESTS over the prompts of each split, as columns ``..._p_adjusted``."""
    columns = list(UNIFORMITY_TESTS.values())
    adjusted = per_prompt.groupby("split", sort=False)[columns].transform(lambda own: holm(own.to_numpy(np.float64)))
    return adjusted.add_suffix("_adjusted")
