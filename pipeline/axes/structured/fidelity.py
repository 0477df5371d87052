"""All sample-level distances of one prompt's answers from its law: values, variation with the sample, and floors."""

from typing import Any

import numpy as np

from pipeline.axes.structured.pit import count_invalid_as_one, pit_wasserstein_1, randomised_pit
from pipeline.axes.structured.wasserstein import PromptResult, perfect_sampler_replicates, prompt_row, wasserstein_1
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.structured import Prompt
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.intervals import half_sample_deviations, half_samples, interval_of_deviations

NUM_HALVES = 200
"""Half-samples behind each prompt's variation with the sample."""


def arrays(deviations: dict[str, np.ndarray], floors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns for ``aggregate_of``: how distances vary with the sample, float64[NUM_HALVES], and what R perfect
    samplers score, float64[R]."""
    kinds = {"deviations": deviations, "floors": floors}
    return {f"{name} {kind}": values for kind, part in kinds.items() for name, values in part.items()}


def _ranked_halves(values: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """float64[R, n // 2], in ascending order the values of float64[n] that are in each of bool[R, n] halves."""
    order = np.argsort(values)
    return np.broadcast_to(values[order], halves.shape)[halves[:, order]].reshape(len(halves), -1)


def wasserstein_1_deviations(samples: np.ndarray, law: Law | FiniteLaw, rng: np.random.Generator) -> np.ndarray:
    """How normalised W1 (Eq. 5) varies with float64[n] samples, float64[NUM_HALVES]; 0 with fewer than two."""
    ranked = _ranked_halves(samples, half_samples(len(samples), NUM_HALVES, rng))
    return half_sample_deviations(wasserstein_1(ranked, law), len(samples))


def _distances(pits: np.ndarray, samples: np.ndarray, law: Law) -> dict[str, np.ndarray]:
    """float64[R] by distance of R samples, ascending in each row of float64[R, n]."""
    return {"pit_wasserstein_1": pit_wasserstein_1(pits), "wasserstein_1_normalised": wasserstein_1(samples, law)}


def evaluate_fidelity(
    prompt: Prompt, result: PromptResult, seed: int, names: tuple[str, str], floor_replicates: int
) -> tuple[dict[str, Any], np.ndarray]:
    """A row of the per-prompt table, and the PITs of the valid answers, float64[num_valid]; ``names`` are model and
    condition, which a perfect sampler does not depend on."""
    law, samples, size, rate = prompt.law, result.samples, len(result.samples), result.valid_rate
    own = (*names, prompt.prompt_id)
    pits = randomised_pit(law, samples, result.decimals, random_stream(seed, "pit", "structured", *own))
    values = {name: float(v[0]) for name, v in _distances(np.sort(pits)[None], np.sort(samples)[None], law).items()}
    values["pit_wasserstein_1_all_answers"] = count_invalid_as_one(values["pit_wasserstein_1"], rate)

    rng = random_stream(seed, "half samples", "structured", *own)
    halves = half_samples(size, NUM_HALVES, rng)
    varied = _distances(_ranked_halves(pits, halves), _ranked_halves(samples, halves), law)
    # A prompt without halves varies by 0 and is not left out: its split's interval is over all prompts.
    deviations = {name: half_sample_deviations(drawn, size) for name, drawn in varied.items()}
    deviations["pit_wasserstein_1_all_answers"] = np.zeros(NUM_HALVES)
    if size:
        # Of rate * distance + 1 - rate, to first order in both: redrawn answers vary in rate and distance.
        rates = rng.binomial(result.num_samples, rate, NUM_HALVES) / result.num_samples - rate
        joint = rate * deviations["pit_wasserstein_1"] + (values["pit_wasserstein_1"] - 1) * rates
        deviations["pit_wasserstein_1_all_answers"] = joint

    # Perfect samplers' PITs are uniform, whatever the law. Where distances are of the valid answers, so are theirs.
    rng = random_stream(seed, "floor", "pit", prompt.prompt_id, size)
    perfect = everything = np.sort(rng.random((floor_replicates, size)), axis=1)
    if size != result.num_samples:
        rng = random_stream(seed, "floor", "pit", prompt.prompt_id, result.num_samples, "all answers")
        everything = np.sort(rng.random((floor_replicates, result.num_samples)), axis=1)
    rng = random_stream(seed, "floor", "structured", prompt.prompt_id, size)
    floors = {
        "wasserstein_1_normalised": perfect_sampler_replicates(law, size, floor_replicates, rng),
        "pit_wasserstein_1": pit_wasserstein_1(perfect),
        "pit_wasserstein_1_all_answers": pit_wasserstein_1(everything),
    }
    low, high = interval_of_deviations(values["wasserstein_1_normalised"], deviations["wasserstein_1_normalised"])
    ends = {"wasserstein_1_normalised_ci_low": low, "wasserstein_1_normalised_ci_high": high}
    floor = float(np.mean(floors["wasserstein_1_normalised"]))
    return {**prompt_row(prompt, result), **values, **ends, "floor": floor, **arrays(deviations, floors)}, pits
