"""All sample-level distances of one prompt's answers from its law: values, variation with the sample, and floors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
from pipeline.axes.structured.tails import (
    LEVEL_ERRORS,
    QUANTILE_ERRORS,
    level_errors,
    quantile_error_floor,
    quantile_errors,
)
from pipeline.axes.structured.wasserstein import PromptResult, mid_quantiles
from pipeline.core.laws.discretize import QUANTILE_RANGE
from pipeline.core.laws.family import Law
from pipeline.core.laws.quantiles import quantile
from pipeline.core.statistics.intervals import half_sample_deviations, half_samples
from pipeline.core.statistics.paired_tests import holm

DISTANCES = ("pit_wasserstein_1", "pit_wasserstein_1_all_answers", "pit_ks", "energy_distance_normalised")
"""Per-prompt columns that are reported for every family."""
TAILS = (*QUANTILE_ERRORS, *LEVEL_ERRORS)
"""Per-prompt columns that are reported over all families only."""
VARIED = (
    "pit_wasserstein_1",
    "pit_ks",
    "energy_distance_normalised",
    *TAILS,
    "wasserstein_1_normalised",
    "wasserstein_1_window_normalised",
)
"""Per-prompt columns whose variation with the sample is measured on half-samples."""
UNIFORMITY_TESTS = {"pit_rejected_share": "pit_ks_p", "pit_chi_square_rejected_share": "pit_chi_square_p"}
"""Metric, and the column of p-values that it counts after Holm's adjustment."""
NUM_HALVES = 200
"""Half-samples behind each prompt's variation with the sample."""


@dataclass(frozen=True)
class Streams:
    """The random streams of one prompt's figures.

    Attributes:
        pit: Where answers lie within what their rank leaves open.
        halves: Half-samples.
        floor: Perfect samplers of as many answers as are valid.
        floor_all: Perfect samplers of as many answers as there are.
    """

    pit: np.random.Generator
    halves: np.random.Generator
    floor: np.random.Generator
    floor_all: np.random.Generator


@dataclass(frozen=True)
class Fidelity:
    """One prompt's distances from its law.

    Attributes:
        row: By column: DISTANCES, TAILS, tests of uniformity, and standard errors of DISTANCES and of W1.
        pits: float64[num_valid], in the order of the samples.
        deviations: By metric of VARIED, and pit_wasserstein_1_all_answers, float64[NUM_HALVES]: how it varies with the
            sample (``half_sample_deviations``); 0 with fewer than two valid answers.
        floors: By metric, float64[R]: what R perfect samplers score.
    """

    row: dict[str, float]
    pits: np.ndarray
    deviations: dict[str, np.ndarray]
    floors: dict[str, np.ndarray]


def evaluate_fidelity(result: PromptResult, law: Law, floor_replicates: int, streams: Streams) -> Fidelity:
    """Compare the valid samples of one prompt with its law.

    Args:
        result: The parsed answers.
        law: The target.
        floor_replicates: Perfect samplers, R.
        streams: See there; ``pit`` and ``halves`` belong to a condition, the others to a prompt and sample size.
    """
    samples, size = result.samples, len(result.samples)
    pits = randomised_pit(law, samples, result.decimals, streams.pit)
    reference = EnergyReference(law)
    ordered = np.sort(samples)
    measured = _distances(np.sort(pits)[None], ordered[None], law, result.width)
    measured["energy_distance_normalised"] = reference.distances(ordered, np.ones((1, size), dtype=bool))
    deviations = _sample_deviations(result, law, pits, reference, streams.halves)
    row = {name: float(values[0]) for name, values in measured.items()}
    rate = result.valid_rate
    row["pit_wasserstein_1_all_answers"] = float(count_invalid_as_one(row["pit_wasserstein_1"], rate))
    deviations["pit_wasserstein_1_all_answers"] = _all_answers_deviations(row, deviations, result, streams.halves)
    tests = uniformity_tests(pits)
    row |= {"pit_ks_p": tests.ks_p, "pit_chi_square": tests.chi_square, "pit_chi_square_p": tests.chi_square_p}
    row |= {
        f"{name}_standard_error": float(deviations[name].std(ddof=1)) if size > 1 else math.nan
        for name in (*DISTANCES, "wasserstein_1_normalised")
    }
    return Fidelity(row, pits, deviations, _floors(result, law, reference, floor_replicates, streams))


def _sample_deviations(
    result: PromptResult, law: Law, pits: np.ndarray, reference: EnergyReference, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """float64[NUM_HALVES] by metric; 0 where there are fewer than two valid answers, of which there is no half.

    A prompt without halves must not take them from the others: their split's interval is over all prompts.
    """
    samples, size = result.samples, len(result.samples)
    if size < 2:
        return {name: np.zeros(NUM_HALVES) for name in VARIED}
    halves, order = half_samples(size, NUM_HALVES, rng), np.argsort(samples)
    own, ranked = (
        np.broadcast_to(array[places], halves.shape)[halves[:, places]].reshape(NUM_HALVES, -1)
        for array, places in ((pits, np.argsort(pits)), (samples, order))
    )
    varied = _distances(own, ranked, law, result.width) | _value_distances(ranked, law, result.width)
    varied["energy_distance_normalised"] = reference.distances(samples[order], halves[:, order])
    return {name: half_sample_deviations(values, size) for name, values in varied.items()}


def wasserstein_1_deviations(result: PromptResult, law: Law, rng: np.random.Generator) -> np.ndarray:
    """How normalised W1 (Eq. 5) varies with the sample, float64[NUM_HALVES]; 0 with fewer than two valid answers.

    Args:
        result: The parsed answers.
        law: The target.
        rng: The half-samples' stream.
    """
    size = len(result.samples)
    if size < 2:
        return np.zeros(NUM_HALVES)
    halves = half_samples(size, NUM_HALVES, rng)
    ranked = np.broadcast_to(np.sort(result.samples), halves.shape)[halves].reshape(NUM_HALVES, -1)
    return half_sample_deviations(_value_distances(ranked, law, result.width)["wasserstein_1_normalised"], size)


def _distances(pits: np.ndarray, samples: np.ndarray, law: Law, width: float) -> dict[str, np.ndarray]:
    """float64[R] by metric of R samples, ascending in each row of float64[R, n]."""
    return {
        "pit_wasserstein_1": pit_wasserstein_1(pits),
        "pit_ks": pit_ks(pits),
        **dict(zip(QUANTILE_ERRORS, quantile_errors(law, samples, width).T, strict=True)),
        **dict(zip(LEVEL_ERRORS, level_errors(pits).T, strict=True)),
    }


def _value_distances(samples: np.ndarray, law: Law, width: float) -> dict[str, np.ndarray]:
    """Normalised W1 (Eq. 5) of samples as in ``_distances``, whole and clipped to the window."""
    reference = mid_quantiles(law, samples.shape[1])
    window = np.clip(quantile(law, np.array(QUANTILE_RANGE)), *law.support)
    scale = width if width > 0 else math.nan
    return {
        "wasserstein_1_normalised": np.abs(samples - reference).mean(axis=1) / scale,
        "wasserstein_1_window_normalised": np.abs(np.clip(samples, *window) - np.clip(reference, *window)).mean(axis=1)
        / scale,
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


def _floors(
    result: PromptResult, law: Law, reference: EnergyReference, replicates: int, streams: Streams
) -> dict[str, np.ndarray]:
    """float64[R] by metric: perfect samplers with as many valid answers, or as many answers, all of them valid.

    Perfect samplers' PITs are uniform, whatever the law.
    """
    size = len(result.samples)
    pits = np.sort(streams.floor.random((replicates, size)), axis=1)
    everything = pits
    if size != result.num_samples:
        everything = np.sort(streams.floor_all.random((replicates, result.num_samples)), axis=1)
    return {
        "pit_wasserstein_1": pit_wasserstein_1(pits),
        "pit_wasserstein_1_all_answers": pit_wasserstein_1(everything),
        "pit_ks": pit_ks(pits),
        "energy_distance_normalised": reference.floor(pits),
        **dict(zip(QUANTILE_ERRORS, quantile_error_floor(law, pits, result.width).T, strict=True)),
        **dict(zip(LEVEL_ERRORS, level_errors(pits).T, strict=True)),
    }


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
