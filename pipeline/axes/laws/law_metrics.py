"""One prompt's answers against its law, and what is reported of a split."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.scores import LAW_EXACT_COLUMNS
from pipeline.axes.structured.aggregate import FAMILY_VALID_RATE, VALID_RATE, total
from pipeline.axes.structured.fidelity import NUM_HALVES, arrays, wasserstein_1_deviations
from pipeline.axes.structured.ks import ks_passes, share_of_requests
from pipeline.axes.structured.wasserstein import evaluate_prompt, perfect_sampler_replicates
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.number_answers import Invalid
from pipeline.core.prompts.structured import Prompt
from pipeline.core.prompts.text_answers import normalise_answer
from pipeline.core.random_streams import random_stream
from pipeline.core.statistics.law_check import total_variation_deviations, total_variation_floors, total_variations
from pipeline.core.statistics.summarise import Statistic, aggregate_of

CHANCE_GAP = "law_chance_gap"
SAMPLED = ("law_total_variation", "law_wasserstein_1_normalised")
"""Distances of samples: of categories, and of numbers. A prompt has one of them."""
LAW_VALID_RATE = "law_valid_rate"
KS = ("law_ks_at_100", "law_ks_at_100_all")
"""Shares of requests that pass, of numbers."""


def class_counts(answers: Sequence[str | Invalid], law: FiniteLaw) -> tuple[np.ndarray, dict[str, int]]:
    """int64[K] answers by class, and the others by reason; a text that is none of the law's is out of the support."""
    class_of = dict(zip(law.strings, law.class_of.tolist(), strict=True))
    # A reason is a string as well, and may be one of the law's.
    found = [text if isinstance(text, Invalid) else class_of.get(text) for text in map(normalise_answer, answers)]
    places = [place for place in found if isinstance(place, int)]
    reasons = Counter((place or Invalid.OUT_OF_SUPPORT).value for place in found if not isinstance(place, int))
    return np.bincount(places, minlength=len(law.class_names)).astype(np.int64), dict(reasons)


def evaluate_law(
    prompt: Prompt, answers: Sequence[str | Invalid], *, seed: int, names: tuple[str, ...], floor_replicates: int
) -> dict[str, Any]:
    """The answers to a prompt, one of each generation, as a row with ``arrays``; ``names`` are model and condition."""
    law, name = prompt.law, prompt.prompt_id
    numeric = not isinstance(law, FiniteLaw) or law.values is not None
    halves = random_stream(seed, "half samples", "laws", *names, prompt.split, name)
    if numeric:
        result, metric = evaluate_prompt(answers, law), "law_wasserstein_1_normalised"
        size, value, invalid = len(result.samples), result.wasserstein_1_normalised, result.invalid
        perfect = partial(perfect_sampler_replicates, law)
        varied = wasserstein_1_deviations(result.samples, law, halves)
    else:
        (counts, invalid), metric, target = class_counts(answers, law), "law_total_variation", law.class_probabilities
        size, value = int(counts.sum()), float(total_variations(counts[None], target)[0])
        perfect = partial(total_variation_floors, target)
        varied = total_variation_deviations(counts, target, NUM_HALVES, halves)
    passed = ks_passes(prompt, answers, seed).values() if numeric else (np.nan, np.nan)
    # A perfect sampler of a size is the same whatever the condition.
    rng = random_stream(seed, "floor", "laws", name, size)
    floor = perfect(size, floor_replicates, rng) if size else np.full(floor_replicates, np.nan)
    values, deviations, floors, options = {metric: value}, {metric: varied}, {metric: floor}, {}
    if not numeric and prompt.parameters.get("draws", 1) == 1:
        # Total variation is half of the sum over options.
        scale = 2 / len(target)
        values[CHANCE_GAP] = value * scale
        deviations[CHANCE_GAP], floors[CHANCE_GAP] = varied * scale, floor * scale
        options = {"chance": target.tolist(), "share": (counts / size).tolist() if size else [np.nan] * len(target)}
    return {
        "prompt_id": name,
        "split": prompt.split,
        "family": prompt.family,
        "fields": ", ".join(f"{key}={value}" for key, value in prompt.parameters.items()),
        "numeric": numeric,
        "num_samples": len(answers),
        "num_valid": size,
        LAW_VALID_RATE: size / len(answers) if answers else np.nan,
        **dict(zip(KS, passed, strict=True)),
        "floor": float(floor.mean()),
        **{f"invalid_{reason.value}": invalid.get(reason.value, 0) for reason in Invalid},
        **values,
        **arrays(deviations, floors),
        **options,
    }


def summaries(rows: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Mapping[str, Statistic], Mapping[str, Statistic]]]:
    """Rows of a split, what is reported of them, and what of each law by itself: arguments of ``summarise``."""
    yield rows, {LAW_VALID_RATE: VALID_RATE}, {LAW_VALID_RATE: FAMILY_VALID_RATE}
    numeric = rows["numeric"].astype(bool)
    for metric in KS if numeric.any() else ():
        of_split, of_law = share_of_requests(metric)
        yield rows[numeric], {metric: of_split}, {metric: of_law}
    # Without valid answers a distance is undefined, not absent: the prompt's law has it.
    one_draw = ~numeric & (rows["chance"].notna() if "chance" in rows else False)
    chosen = dict(zip((*SAMPLED, CHANCE_GAP), (~numeric, numeric, one_draw), strict=True))
    chosen |= {name: rows[name].notna() for name in LAW_EXACT_COLUMNS}
    for metric, kind in chosen.items():
        if metric in rows:
            size = total("num_valid") if metric in (*SAMPLED, CHANCE_GAP) else None
            statistic = {metric: aggregate_of(metric, "family_mean", size)}
            yield rows[kind], statistic, statistic
